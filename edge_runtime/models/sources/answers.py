"""What a server's answer to a download means: usable, to be tried again, or a reason that a person can act on."""

from __future__ import annotations

import httpx

from edge_runtime.models.errors import ContentRefused, SourceUnavailable

_OK = frozenset({200, 206})
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
# What hubs of Hugging Face's kind say in `x-error-code`.
_HUB_REASONS = {
    "GatedRepo": "its owner lets in only who has accepted the terms: accept them on its page, and set HF_TOKEN",
    "RepoNotFound": "there is no such repository, or it is private: check the name, and set HF_TOKEN",
    "RevisionNotFound": "the repository has no such revision",
    "EntryNotFound": "the repository has no such file",
}


class Retry(Exception):
    """The same request may succeed later."""

    def __init__(self, problem: str, wait_s: float = 0.0) -> None:
        """Say what the problem is, and for how long the server asks to be left alone."""
        super().__init__(problem)
        self.wait_s = wait_s


class Gone(Exception):
    """The server no longer has the file of which a part is here."""


def require_usable(response: httpx.Response, name: str, token: str | None = None) -> None:
    """Return if the answer's body is the file.

    Raises:
        SourceUnavailable: It is not there, or not for us.
        ContentRefused: It is a web page.
        Retry: The server cannot answer now.
        Gone: The range that was asked for is not there.
    """
    status, host = response.status_code, response.url.host
    if status in _OK:
        if response.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/html":
            raise ContentRefused(
                f"{name} is a web page, and not the file: something between here and {host} answered in its place, "
                "such as the login page of a network."
            )
        return
    if status == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
        raise Gone
    if status in _AGAIN:
        wait = response.headers.get("retry-after", "")
        raise Retry(f"{host} answered {status}", float(wait) if wait.isdigit() else 0.0)
    reason = _HUB_REASONS.get(response.headers.get("x-error-code", ""))
    if reason is None and status in {401, 403}:
        reason = "the token in HF_TOKEN is not let in" if token else "it asks for a token: set HF_TOKEN"
    if reason is None and status in {404, 410}:
        reason = "it is not there"
    raise SourceUnavailable(
        f"{name} could not be fetched: {reason or 'that is no answer to work with'} ({host}: {status})."
    )
