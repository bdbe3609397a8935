"""Why a model was not taken in, switched or removed. Every message names the way on.

StoreError
├── NoSpace             the disk is too full
├── NoSuchModel         no model or version of that name
├── InUse               a runtime holds the version, or it is the active one
├── NothingToRollBack   no earlier version is left
├── KeyRefused          a key cannot be added or removed as asked
├── SourceInvalid       a source is not written as one
├── SourceUnavailable   it could not be fetched
└── ContentRefused      what was fetched is not what a model is made of
"""

from __future__ import annotations

import errno


def what_failed(error: OSError) -> str:
    """Return a sentence for a person; a store is left as it was, or as it was to be."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "The disk is full. Free some of it and try again; what was there stays as it was."
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{error.strerror or error}."


class StoreError(Exception):
    """What a person can mend."""


class NoSpace(StoreError):
    """The disk that holds the models is too full."""


class NoSuchModel(StoreError):
    """There is no model or version of that name."""


class InUse(StoreError):
    """A running process holds the version, or its name stands for it."""


class NothingToRollBack(StoreError):
    """No version that was active before is left."""


class KeyRefused(StoreError):
    """A key cannot be added or removed as asked."""


class SourceInvalid(StoreError):
    """A source is not written as one."""


class SourceUnavailable(StoreError):
    """A source could not be fetched."""


class ContentRefused(StoreError):
    """A file is not what a model is made of, or not the one that was promised. The message names file and reason."""
