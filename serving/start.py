"""Why a program does not start."""

from __future__ import annotations


class StartRefused(Exception):
    """The program cannot start as it was told to. The message says why and what to do."""
