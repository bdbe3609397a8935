"""Every failure a caller can meet, as one tree. The table that maps it to the wire is the classes themselves.

    TidegateError
    ├── InvalidRequest                 400  the request is wrong and stays wrong
    │   ├── MalformedBody              400  not UTF-8, not JSON, not an object, a key twice
    │   ├── InvalidField               400  a field has the wrong type or value; `param` names it
    │   ├── InvalidHeader              400  a header has a value that cannot be read; `param` names it
    │   ├── ForbiddenField             400  the body tries to choose where it is sent
    │   ├── ContextLengthExceeded      400  no target that may answer has a window this large
    │   ├── CapabilityUnavailable      400  no target that may answer can do what the request needs
    │   ├── UnknownModel               404
    │   ├── UnknownRoute               404
    │   ├── UnknownRequest             404  no request is kept under that id for this caller
    │   ├── MethodNotAllowed           405
    │   ├── RequestTimeout             408  the body did not arrive in time
    │   ├── AnswerNotReady             409  the answer of a kept request is not there yet
    │   ├── AnswerGone                 410  it is not kept any more, or was too large to keep
    │   ├── BodyTooLarge               413
    │   ├── MisdirectedRequest         421  the request is for a host that is not served here
    │   ├── HeadTooLarge               431
    │   ├── UnsupportedEncoding        415
    │   ├── IdempotencyKeyReused       422  the key stands for another request
    │   └── UpstreamBlamedRequest      400  the target found the request wrong
    ├── AuthenticationFailed           401
    ├── PermissionDenied               403
    │   ├── PolicyRefused              403  the policy leaves no target for this request, whatever their state
    │   └── AnswerWithheld             403  the policy lets nobody see what the answer holds
    ├── QuotaExceeded                  429  the caller's own limit
    ├── Unavailable                    503  ours, for now
    │   ├── Overloaded                 503  the queue is full
    │   ├── Draining                   503  shutting down
    │   ├── NoTargetAvailable          503  those that may answer are down
    │   ├── IssuerUnavailable          503  the keys that a caller's token is checked with are not at hand
    │   └── RecordFailed               503  what cannot be written down may not leave this box
    ├── DeadlineExceeded               504  the caller's budget ran out before first content
    ├── UpstreamError                  502  a target failed; none is left that may answer
    │   ├── UpstreamUnreachable        502  no connection was made
    │   ├── UpstreamCut                502  the connection ended in the middle of an answer
    │   ├── UpstreamTimedOut           504  no answer within the gateway's own bound
    │   ├── UpstreamProtocol           502  the answer was not the protocol's
    │   │   └── UpstreamCaptive        502  a web page came in its place: something on the way answers for the target
    │   └── UpstreamRefused            502  the target answered with an error of its own
    │       └── UpstreamBusy           503  it asked to be left alone for a while
    └── InternalError                  500  a fault of Tidegate's
        └── EgressRefused              500  the door was asked to send what no verdict covers

A message never holds a prompt, a secret, or a stack.
"""

from __future__ import annotations

from collections.abc import Iterator

from inference_protocol.tidegate_error import TidegateError as TidegateError


class InvalidRequest(TidegateError):
    """The request is wrong and stays wrong however often it is sent."""

    code = "invalid_request"
    http_status = 400
    openai_type = "invalid_request_error"


class MalformedBody(InvalidRequest):
    """The body is not UTF-8, not JSON, not an object, too deep, or names a key twice."""

    code = "malformed_body"


class InvalidField(InvalidRequest):
    """A field has the wrong type or value."""

    code = "invalid_field"


class InvalidHeader(InvalidRequest):
    """A header has a value that cannot be read."""

    code = "invalid_header"


class ForbiddenField(InvalidRequest):
    """The body tries to choose the destination or its credentials, which only settings may."""

    code = "forbidden_field"


class ContextLengthExceeded(InvalidRequest):
    """The prompt and its output cap fit no window of a target that may answer."""

    code = "context_length_exceeded"


class CapabilityUnavailable(InvalidRequest):
    """No target that may answer can do what the request needs."""

    code = "capability_unavailable"


class UnknownModel(InvalidRequest):
    """The model is not served under that name."""

    code = "model_not_found"
    http_status = 404


class UnknownRoute(InvalidRequest):
    """No such path."""

    code = "not_found"
    http_status = 404


class UnknownRequest(InvalidRequest):
    """No request is kept under that id for this caller; of another caller's nobody is told that it is there."""

    code = "request_not_found"
    http_status = 404


class MethodNotAllowed(InvalidRequest):
    """The path exists, the method does not."""

    code = "method_not_allowed"
    http_status = 405


class RequestTimeout(InvalidRequest):
    """The body did not arrive in time."""

    code = "request_timeout"
    http_status = 408
    retryable = True


class AnswerNotReady(InvalidRequest):
    """The answer of a kept request is asked for before it has begun."""

    code = "answer_not_ready"
    http_status = 409
    retryable = True
    usual_retry_after_s = 1.0


class AnswerGone(InvalidRequest):
    """The answer is not kept any more, or not as far as it is asked for; `details.reason` says why."""

    code = "answer_gone"
    http_status = 410


class BodyTooLarge(InvalidRequest):
    """The body passes the limit."""

    code = "body_too_large"
    http_status = 413


class MisdirectedRequest(InvalidRequest):
    """The request names a host that is not served here: a web page may have had its own name lead to this machine."""

    code = "misdirected_request"
    http_status = 421


class HeadTooLarge(InvalidRequest):
    """The head of the request passes the limit."""

    code = "head_too_large"
    http_status = 431


class UnsupportedEncoding(InvalidRequest):
    """The body's content encoding or type is not accepted."""

    code = "unsupported_encoding"
    http_status = 415


class IdempotencyKeyReused(InvalidRequest):
    """The caller sent another request under this idempotency key before."""

    code = "idempotency_key_reused"
    http_status = 422


class UpstreamBlamedRequest(InvalidRequest):
    """The target answered that the request is wrong; others would too. `details.upstream_status` is its HTTP status."""

    code = "upstream_blamed_request"


class AuthenticationFailed(TidegateError):
    """No credential, or one that does not hold."""

    code = "authentication_failed"
    http_status = 401
    openai_type = "authentication_error"


class PermissionDenied(TidegateError):
    """The caller is known and may not do this."""

    code = "permission_denied"
    http_status = 403
    openai_type = "permission_error"


class PolicyRefused(PermissionDenied):
    """The policy leaves no target for this request, whatever state they are in."""

    code = "policy_refused"


class AnswerWithheld(PermissionDenied):
    """Something stands in the answer that the policy lets nobody see; the message names its kind."""

    code = "answer_withheld"


class QuotaExceeded(TidegateError):
    """The caller's own limit is used up."""

    code = "quota_exceeded"
    http_status = 429
    openai_type = "rate_limit_error"
    retryable = True
    usual_retry_after_s = 1.0


class Unavailable(TidegateError):
    """Tidegate cannot answer now."""

    code = "unavailable"
    http_status = 503
    openai_type = "server_error"
    retryable = True
    usual_retry_after_s = 1.0


class Overloaded(Unavailable):
    """The queue is full."""

    code = "overloaded"
    reason = "rejected-saturated"


class Draining(Unavailable):
    """The program is shutting down and takes no new work."""

    code = "draining"
    reason = "rejected-shutting-down"


class NoTargetAvailable(Unavailable):
    """Every target that may answer this request is down."""

    code = "no_target_available"


class IssuerUnavailable(Unavailable):
    """The keys of an identity provider are not at hand, so that its tokens cannot be checked."""

    code = "issuer_unavailable"


class RecordFailed(Unavailable):
    """The decision could not be written down, so nothing may go to anything that is not this box."""

    code = "record_failed"


class DeadlineExceeded(TidegateError):
    """The caller's budget ran out before the first content."""

    code = "deadline_exceeded"
    http_status = 504
    openai_type = "timeout_error"
    retryable = True


class UpstreamError(TidegateError):
    """A target failed and no other may answer."""

    code = "upstream_error"
    http_status = 502
    openai_type = "upstream_error"
    retryable = True


class UpstreamUnreachable(UpstreamError):
    """No connection to the target was made, so nothing was sent."""

    code = "upstream_unreachable"


class UpstreamCut(UpstreamError):
    """The connection ended in the middle of an answer."""

    code = "upstream_cut"


class UpstreamTimedOut(UpstreamError):
    """The target gave no answer within the gateway's own bound, where the caller gave no budget that ran out."""

    code = "upstream_timed_out"
    http_status = 504


class UpstreamProtocol(UpstreamError):
    """What the target answered is not the protocol's."""

    code = "upstream_protocol"


class UpstreamCaptive(UpstreamProtocol):
    """A web page came where JSON was due: a captive portal or a proxy answered in the target's place."""

    code = "upstream_captive"


class UpstreamRefused(UpstreamError):
    """The target answered with an error of its own. `details.upstream_status` holds its HTTP status."""

    code = "upstream_refused"


class UpstreamBusy(UpstreamRefused):
    """The target is over its limits and asked to be left alone for a while; `retry_after_s` says for how long."""

    code = "upstream_busy"
    http_status = 503
    reason = "rejected-upstream-busy"
    usual_retry_after_s = 1.0


class InternalError(TidegateError):
    """A fault of Tidegate's own."""

    code = "internal_error"
    http_status = 500
    openai_type = "server_error"


class EgressRefused(InternalError):
    """The door was asked to send something that no verdict covers; nothing was sent."""

    code = "egress_refused"


def error_classes() -> Iterator[type[TidegateError]]:
    """Yield every concrete class of the tree, parents before children; docs and tests are made from it."""
    pending: list[type[TidegateError]] = list(TidegateError.__subclasses__())
    while pending:
        cls = pending.pop(0)
        yield cls
        pending[:0] = cls.__subclasses__()
