"""Names that engines' code uses of what chooses tokens."""

from runtime_server.choosing.sampler import Logits, NonFiniteLogits, Sampler

__all__ = ["Logits", "NonFiniteLogits", "Sampler"]
