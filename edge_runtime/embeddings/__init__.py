"""Vectors of texts on ONNX Runtime."""
