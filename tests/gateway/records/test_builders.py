from typing import Any

import orjson
from opentelemetry.trace import NonRecordingSpan, SpanContext

from gateway.answer import AnswerFacts
from gateway.exchange import Attempt, Cause, Decided, Exchange
from gateway.principal import LOCAL
from gateway.records.builders import decision_record, outcome_record
from inference_protocol.errors import DeadlineExceeded
from inference_protocol.openai_stream import Usage
from inference_protocol.outcome import Outcome
from inference_protocol.request import InferenceRequest, Needs, Task
from inference_protocol.text_parts import UninspectableCause
from routing_policies.decide import decide
from routing_policies.lab.replay import Replayer
from routing_policies.policy.loader import load_policy
from routing_policies.signals.deadline import Deadline
from routing_policies.signals.label import Component, DataClass, Label
from routing_policies.signals.size import Size, TokenInterval
from routing_policies.snapshot import Capabilities, Health, Prediction, Snapshot, TargetSnapshot
from routing_policies.view import RequestView

SECRET = "Zyxwv sold Qwertz to Plugh"
SPAN = NonRecordingSpan(SpanContext(0xABC, 0xDEF, is_remote=False))


def _target(name: str, prediction: Prediction | None = None) -> TargetSnapshot:
    return TargetSnapshot(name, Health.UP, Capabilities("m", window=2048), prediction=prediction)


def _decided_exchange() -> Exchange:
    body = {"model": "m", "messages": [{"role": "user", "content": SECRET}]}
    label = Label(
        DataClass.PUBLIC,
        declared=Component(DataClass.INTERNAL),
        findings=Component(DataClass.CONFIDENTIAL, frozenset({"pii"})),
        uninspected=Component(DataClass.CONFIDENTIAL),
        counts={"email": 1},
        causes=frozenset({UninspectableCause.IMAGE}),
    )
    view = RequestView(
        task=Task.CHAT,
        model="m",
        stream=False,
        needs=Needs(),
        label=label,
        deadline=Deadline(received_at=100.0, total_at=101.5),
        size=Size(TokenInterval(9, 10, 12), body_bytes=80, parts={"text": 1}),
        output_cap=64,
    )
    edge = _target("edge", Prediction(50.0, 300.0, 0.2, 0.4, 20.0, (50.0, 300.0)))
    snapshot = Snapshot({"edge": edge, "cloud": _target("cloud")}, now=100.125, seed=7)
    policy = load_policy("balanced")
    request = InferenceRequest(Task.CHAT, "m", raw=orjson.dumps(body), tree=body)
    return Exchange(
        request_id="req-1",
        client_request_id="shop-1",
        received_at=100.0,
        received_wall_s=1_700_000_000.25,
        route="/v1/chat/completions",
        span=SPAN,
        clock=lambda: 100.2,
        principal=LOCAL,
        decision=Decided(request, view, policy, snapshot, decide(policy, view, snapshot)),
        parts_ms={"parse": 0.12345},
    )


def _written(record: dict[str, Any]) -> dict[str, Any]:
    """The record as it is read back."""
    read: dict[str, Any] = orjson.loads(orjson.dumps(record))
    return read


def test_a_decision_says_who_may_answer_who_may_not_and_why() -> None:
    exchange = _decided_exchange()
    record = _written(decision_record(exchange))
    assert record["request_id"] == "req-1"
    assert record["client_request_id"] == "shop-1"
    assert record["trace_id"] == f"{0xABC:032x}"
    assert record["time"] == "2023-11-14T22:13:20.250+00:00"
    assert record["tenant"] == "local"
    assert record["eligible"] == [{"target": "edge", "transform": "none"}]
    assert record["excluded"]["cloud"]["kind"] == "clearance"
    assert record["excluded"]["cloud"]["detail"]
    digest = exchange.decided.verdict.policy_digest
    assert record["policy"] == {"name": "balanced", "digest": digest, "version": 0, "arm": "stable"}
    assert record["digest"] == exchange.decided.verdict.digest
    assert record["reason"] == "only-eligible"
    assert record["rules"] == ["confidential-stays"]


def test_a_decision_holds_the_measures_it_was_made_from() -> None:
    exchange = _decided_exchange()
    record = _written(decision_record(exchange))
    assert record["label"] == {
        "class": "confidential",
        "tags": ["pii"],
        "default": "public",
        "components": {
            "declared": {"class": "internal", "tags": []},
            "findings": {"class": "confidential", "tags": ["pii"]},
            "uninspected": {"class": "confidential", "tags": []},
        },
        "findings": {"email": 1},
        "uninspected": ["image"],
        "fixed": [],
        "key_causes": {},
    }
    assert record["budget"] == {"total_ms": 1500.0, "ttft_ms": None}
    assert record["size"] == {
        "tokens": [9, 10, 12],
        "output_cap": 64,
        "cap_is_own": True,
        "body_bytes": 80,
        "parts": {"text": 1},
    }
    assert record["scores"]["privacy"] == exchange.decided.verdict.scores.privacy
    assert record["terms"]["edge"]["score"] == exchange.decided.verdict.terms["edge"].score
    assert record["predictions"]["edge"]["total_ms"] == 300.0
    assert record["predictions"]["cloud"] is None


def test_a_decision_can_be_made_again_from_its_record() -> None:
    exchange = _decided_exchange()
    replayed = Replayer(exchange.decided.policy).replay(orjson.dumps(decision_record(exchange)))
    assert replayed is not None
    decided = exchange.decided
    again = decide(decided.policy, replayed.view, replayed.snapshot)
    assert again.digest == decided.verdict.digest
    assert replayed.eligible == tuple(e.target for e in again.eligible)
    assert replayed.assumed == ()


def test_an_outcome_accounts_for_every_attempt() -> None:
    exchange = _decided_exchange()
    facts = AnswerFacts()
    facts.finish_reason, facts.usage = "stop", Usage(10, 7, 4)
    failed = Attempt("cloud", 100.1, SPAN, in_flight=1, bytes_out=82)
    failed.end(100.2, Outcome.UPSTREAM_ERROR, "upstream_unreachable")
    answered = Attempt(
        "edge",
        100.2,
        SPAN,
        in_flight=1,
        bytes_out=80,
        first_content_at=100.25,
        facts=facts,
        cause=Cause.FALLBACK,
        endpoint="http://127.0.0.1:1",
    )
    answered.end(100.5, Outcome.OK)
    exchange.attempts += [failed, answered]
    exchange.outcome, exchange.committed_at = Outcome.OK, 100.25
    record = _written(outcome_record(exchange, 100.5))
    assert {
        key: record[key] for key in ("outcome", "error", "target", "duration_ms", "commit_ms", "finish_reason")
    } == {
        "outcome": "ok",
        "error": None,
        "target": "edge",
        "duration_ms": 500.0,
        "commit_ms": 250.0,
        "finish_reason": "stop",
    }
    assert record["time"] == "2023-11-14T22:13:20.750+00:00"
    assert record["tokens"] == {"input": 10, "cached": 4, "output": 7}
    assert record["parts_ms"] == {"parse": 0.123}
    assert record["attempts"] == [
        {
            "target": "cloud",
            "endpoint": "",
            "cause": "first",
            "outcome": "upstream_error",
            "error": "upstream_unreachable",
            "in_flight": 1,
            "bytes_out": 82,
            "first_content_ms": None,
            "duration_ms": 100.0,
            "tokens": None,
        },
        {
            "target": "edge",
            "endpoint": "http://127.0.0.1:1",
            "cause": "fallback",
            "outcome": "ok",
            "error": None,
            "in_flight": 1,
            "bytes_out": 80,
            "first_content_ms": 50.0,
            "duration_ms": 300.0,
            "tokens": {"input": 10, "cached": 4, "output": 7},
        },
    ]


def test_a_request_that_nobody_answered_names_no_target() -> None:
    exchange = _decided_exchange()
    given_up = Attempt("edge", 100.1, SPAN, in_flight=1, bytes_out=80)
    given_up.end(101.5, Outcome.DEADLINE_EXCEEDED, "deadline_exceeded")
    exchange.attempts.append(given_up)
    exchange.fail(DeadlineExceeded("late"))
    record = _written(outcome_record(exchange, 101.5))
    assert record["target"] is None
    assert record["tokens"] is None
    assert (record["outcome"], record["error"]) == ("deadline_exceeded", "deadline_exceeded")


def test_a_request_refused_before_it_was_understood_still_has_an_outcome() -> None:
    exchange = Exchange(
        "req-2", None, "/v1/chat/completions", 100.0, 1.7e9, SPAN, lambda: 100.0, outcome=Outcome.INVALID_REQUEST
    )
    record = _written(outcome_record(exchange, 100.001))
    assert record["outcome"] == "invalid_request"
    assert record["tenant"] is None
    assert record["attempts"] == []


def test_no_record_holds_a_word_of_request_or_answer() -> None:
    exchange = _decided_exchange()
    answered = Attempt("edge", 100.2, SPAN, in_flight=1, facts=AnswerFacts())
    exchange.attempts.append(answered)
    exchange.outcome, exchange.committed_at = Outcome.OK, 100.3
    exchange.error = DeadlineExceeded(SECRET, param=SECRET, details={"text": SECRET})
    written = orjson.dumps([decision_record(exchange), outcome_record(exchange, 101.0)]).decode()
    assert not [word for word in SECRET.split() if len(word) > 4 and word in written]
