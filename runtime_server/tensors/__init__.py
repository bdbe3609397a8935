"""Tensors by the Open Inference Protocol V2, behind whatever computes them: batches, checks, endpoints."""
