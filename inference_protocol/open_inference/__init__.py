"""The Open Inference Protocol V2 (KServe's, Triton's): tensors as JSON, and as bytes behind it."""
