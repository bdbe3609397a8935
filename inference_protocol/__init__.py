"""The contract that the three programs share: types and pure functions, nothing of ours below it, no SDK."""
