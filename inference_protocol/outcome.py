"""How a request, or one attempt of it, ended: one word that its span, its record and its metric share."""

from __future__ import annotations

from enum import StrEnum

from inference_protocol import errors


class Outcome(StrEnum):
    """Low-cardinality, and stable: dashboards and alerts read it."""

    OK = "ok"
    CLIENT_CLOSED = "client_closed"
    # Of requests alone: complete, and its caller had hung up; put off until somebody can answer.
    FINISHED_DETACHED = "finished_detached"
    DEFERRED = "deferred"
    INVALID_REQUEST = "invalid_request"
    UNAUTHENTICATED = "unauthenticated"
    REFUSED = "refused"
    QUOTA_EXCEEDED = "quota_exceeded"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    CONTEXT_EXCEEDED = "context_exceeded"
    UPSTREAM_ERROR = "upstream_error"
    UPSTREAM_BUSY = "upstream_busy"
    UPSTREAM_CUT = "upstream_cut"
    # Of attempts alone: another one, made at the same time, committed first.
    SUPERSEDED = "superseded"
    INTERNAL_ERROR = "internal_error"

    @classmethod
    def of(cls, error: errors.TidegateError) -> Outcome:
        """Return the outcome that `error` stands for: that of its class, or of the nearest class above it."""
        return next(_OF_CLASS[ancestor] for ancestor in type(error).__mro__ if ancestor in _OF_CLASS)


_OF_CLASS: dict[type, Outcome] = {
    errors.TidegateError: Outcome.INTERNAL_ERROR,
    errors.InvalidRequest: Outcome.INVALID_REQUEST,
    errors.ContextLengthExceeded: Outcome.CONTEXT_EXCEEDED,
    errors.AuthenticationFailed: Outcome.UNAUTHENTICATED,
    errors.PermissionDenied: Outcome.REFUSED,
    errors.QuotaExceeded: Outcome.QUOTA_EXCEEDED,
    errors.Unavailable: Outcome.UNAVAILABLE,
    errors.Overloaded: Outcome.OVERLOADED,
    errors.DeadlineExceeded: Outcome.DEADLINE_EXCEEDED,
    errors.UpstreamError: Outcome.UPSTREAM_ERROR,
    errors.UpstreamBusy: Outcome.UPSTREAM_BUSY,
    errors.UpstreamCut: Outcome.UPSTREAM_CUT,
}
