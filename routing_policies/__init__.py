"""The brain: what a request is, what the policy says of it, which targets may and should answer.

Pure functions and frozen values only: no socket, no clock, no randomness that was not handed in.
"""
