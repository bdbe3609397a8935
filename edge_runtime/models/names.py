"""How models and their versions are named."""

from __future__ import annotations

import re

from edge_runtime.models.errors import NoSuchModel

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_ID_PREFIX = re.compile(r"[0-9a-f]{4,64}")


def is_model_name(text: str) -> bool:
    """Whether a model can be called so: it is a folder's name, and no hidden one."""
    return _NAME.fullmatch(text) is not None


def name_from(text: str) -> str:
    """Make a model's name of a file's: lower case, with `-` for what a name cannot hold."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).lstrip("._-")[:100]


def split_reference(text: str) -> tuple[str, str | None]:
    """Split `name` or `name@beginning-of-id`.

    Raises:
        NoSuchModel: It is neither.
    """
    name, at, version = text.partition("@")
    if not is_model_name(name) or (at and not _ID_PREFIX.fullmatch(version)):
        raise NoSuchModel(
            f"`{text}` names no model. Write NAME, or NAME@VERSION with at least 4 digits of the version's id."
        )
    return name, version or None
