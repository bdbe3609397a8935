"""Vectors of texts, behind whatever computes them: both runtimes serve them through this."""
