"""Model hubs of Hugging Face's kind: a revision becomes a commit once, and everything is fetched at that commit.

GET {hub}/api/models/{owner}/{name}/revision/{revision}?blobs=true    {"sha": commit, "siblings": [{"rfilename", …}]}
GET {hub}/{owner}/{name}/resolve/{commit}/{path}                      the file, often by a redirect to other hosts
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import quote

import httpx
from pydantic import BaseModel, Field, ValidationError

from edge_runtime.models.errors import ContentRefused, SourceInvalid, SourceUnavailable
from edge_runtime.models.sources.answers import Retry, require_usable
from edge_runtime.models.sources.connections import read_listing
from edge_runtime.models.sources.content import require_safe_name
from edge_runtime.models.sources.download import Remote
from edge_runtime.models.sources.parse import HubSource
from edge_runtime.models.sources.redirects import find_place, require_allowed, same_place
from runtime_server.model_manifest import FILE_NAME

# Of a folder in Hugging Face's format, what a model is made of; what else stands there is not fetched.
_WANTED = frozenset(
    {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "chat_template.jinja",
        "model.safetensors.index.json",
    }
)
_LARGEST_LISTING = 16 << 20


class _Lfs(BaseModel):
    sha256: str | None = None


class _Sibling(BaseModel):
    rfilename: str
    size: int | None = None
    lfs: _Lfs | None = None


class _Listing(BaseModel):
    sha: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    siblings: list[_Sibling]


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A repository at a commit.

    Attributes:
        commit: That its revision stood for when it was asked.
        packaged: Whether it holds a model with its manifest, which says what to fetch.
        files: Otherwise, what to fetch.
    """

    commit: str
    packaged: bool
    files: tuple[Remote, ...] = ()


class Hub:
    """One hub."""

    def __init__(self, client: httpx.Client, endpoint: str, token: str | None) -> None:
        """Ask `endpoint`, with the token if there is one; `client` follows no redirects by itself."""
        self._client = client
        self._endpoint = endpoint.rstrip("/")
        self._token = token

    def look_up(self, source: HubSource) -> HubRepository:
        """Resolve the revision, and choose what a model is made of.

        Raises:
            SourceUnavailable: The hub cannot be asked, or does not know it.
            SourceInvalid: It must be said which file is meant.
            ContentRefused: There is nothing that may be fetched.
        """
        listing = self._list(source)
        by_name = {file.rfilename: file for file in listing.siblings}
        if source.file is None and FILE_NAME in by_name:
            return HubRepository(listing.sha, packaged=True)
        found = []
        for name in _choose(source, list(by_name)):
            file = by_name[name]
            sha256 = file.lfs.sha256 if file.lfs else None
            found.append(replace(self.remote(source.repo, listing.sha, name), size=file.size, sha256=sha256))
        return HubRepository(listing.sha, packaged=False, files=tuple(found))

    def remote(self, repo: str, commit: str, name: str) -> Remote:
        """Return where a file is, at a commit.

        Raises:
            ContentRefused: It may not be fetched.
        """
        require_safe_name(name)
        return Remote(f"{self._endpoint}/{repo}/resolve/{commit}/{quote(name)}", name, self._token)

    def _list(self, source: HubSource) -> _Listing:
        origin = place = find_place(
            httpx.URL(
                f"{self._endpoint}/api/models/{source.repo}/revision/{quote(source.revision, safe='')}?blobs=true"
            )
        )
        host = origin.url.host
        what = f"{source.repo}@{source.revision}"
        for _ in range(3):  # a repository that was renamed redirects once
            known = self._token is not None and same_place(origin.url, place.url)
            own = {"authorization": f"Bearer {self._token}"} if known else {}
            try:
                response, body = read_listing(self._client, place, own, _LARGEST_LISTING)
                if not response.is_redirect:
                    require_usable(response, what, self._token)
                    return _Listing.model_validate_json(body)
            except (httpx.TransportError, Retry) as error:
                raise SourceUnavailable(f"{host} could not be asked for {what}: {error}. Try again.") from None
            except ValidationError:
                raise ContentRefused(f"{host} did not answer {what} with the listing of a repository.") from None
            place = require_allowed(origin, place.url.join(response.headers["location"]))
        raise SourceUnavailable(f"{what}: the redirects of {host} do not end.")


def _choose(source: HubSource, names: list[str]) -> list[str]:
    """Return the files to fetch: the one that is named, the only GGUF, or safetensors with their kin."""
    if source.file is not None:
        if source.file not in names:
            raise SourceUnavailable(f"{source.repo} has no file {source.file} at {source.revision}.")
        return [source.file]
    ggufs = sorted(name for name in names if name.lower().endswith(".gguf"))
    weights = [name for name in names if name.endswith(".safetensors") and "/" not in name]
    if len(ggufs) == 1 and not weights:
        return ggufs
    if ggufs and not weights:
        raise SourceInvalid(
            f"{source.repo} holds several GGUF files. Name one: hf:{source.repo}@{source.revision}:{ggufs[0]}. "
            f"There are: {', '.join(ggufs)}."
        )
    if not weights:
        for name in sorted(names):
            if name.endswith((".bin", ".pt", ".pth", ".pkl", ".ckpt", ".h5")):
                require_safe_name(name)
        raise ContentRefused(f"{source.repo} holds no model: neither {FILE_NAME}, nor GGUF, nor safetensors.")
    return sorted(weights + [name for name in names if name in _WANTED])
