"""Attempts on the targets a verdict names, one committed answer, relayed as it comes."""
