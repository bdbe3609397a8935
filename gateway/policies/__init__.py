"""Which policy is in force: read, examined, compared with the one before, kept as a version, tried, taken back."""
