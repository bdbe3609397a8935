"""Choosing tokens from logits: pure, in NumPy, and the same for every engine. It must not know how logits are made."""
