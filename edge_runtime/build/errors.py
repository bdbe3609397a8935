"""Why a build stopped. Every message names the way on."""

from __future__ import annotations

from edge_runtime.models.errors import StoreError


class BuildError(StoreError):
    """A build that a person can mend."""


class ToolsMissing(BuildError):
    """The packages of the extra `build` are not installed."""


class NotImportable(BuildError):
    """A file cannot be imported without loss; the message names what in it stands in the way."""


class NameRefused(BuildError):
    """A model cannot be called so."""


class GateFailed(BuildError):
    """A model answers too differently from what it was made from; the message names the figure."""
