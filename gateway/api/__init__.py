"""The public protocols: from bytes to a canonical request, and back."""
