import pytest

from inference_protocol import errors
from inference_protocol.outcome import Outcome


@pytest.mark.parametrize("error_class", list(errors.error_classes()))
def test_every_error_has_an_outcome_of_its_own_kind(error_class: type[errors.TidegateError]) -> None:
    outcome = Outcome.of(error_class("x"))
    by_status = {
        400: {Outcome.INVALID_REQUEST, Outcome.CONTEXT_EXCEEDED},
        401: {Outcome.UNAUTHENTICATED},
        403: {Outcome.REFUSED},
        404: {Outcome.INVALID_REQUEST},
        405: {Outcome.INVALID_REQUEST},
        408: {Outcome.INVALID_REQUEST},
        409: {Outcome.INVALID_REQUEST},
        410: {Outcome.INVALID_REQUEST},
        413: {Outcome.INVALID_REQUEST},
        415: {Outcome.INVALID_REQUEST},
        421: {Outcome.INVALID_REQUEST},
        422: {Outcome.INVALID_REQUEST},
        431: {Outcome.INVALID_REQUEST},
        429: {Outcome.QUOTA_EXCEEDED},
        500: {Outcome.INTERNAL_ERROR},
        502: {Outcome.UPSTREAM_ERROR, Outcome.UPSTREAM_CUT},
        503: {Outcome.UNAVAILABLE, Outcome.OVERLOADED, Outcome.UPSTREAM_BUSY},
        504: {Outcome.DEADLINE_EXCEEDED, Outcome.UPSTREAM_ERROR},
    }
    assert outcome in by_status[error_class.http_status]


def test_a_cut_stream_and_a_full_queue_are_told_from_their_like() -> None:
    assert Outcome.of(errors.UpstreamCut("x")) is Outcome.UPSTREAM_CUT
    assert Outcome.of(errors.Overloaded("x")) is Outcome.OVERLOADED
