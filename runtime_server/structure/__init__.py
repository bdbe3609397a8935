"""Forms that answers must have: from a schema or a pattern to the tokens that may come next."""
