"""Who may call, and how much: keys, tokens of identity providers, allowances."""
