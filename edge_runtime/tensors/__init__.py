"""Graphs that compute tensors, in ONNX Runtime."""
