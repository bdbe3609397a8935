"""`tidegate conformance`: ours passes every case, and each case fails on a server that breaks its rule."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from gateway.cli.conformance import answers, errors, framing, streams
from gateway.cli.conformance.run import GROUPS, Case, Outcome, Result, run, share_passed
from gateway.cli.conformance.wire import Gateway
from serving import http_protocol
from tests.gateway.conftest import HouseFactory
from tests.support.scripted_runtime import MODEL, Received, ScriptedRuntime, event

WORDS = "one two three"
SECRET = "conformance-secret-0123456789"
KEYS = {"keys": [{"id": "test", "secret_sha256": hashlib.sha256(SECRET.encode()).hexdigest(), "tenant": "t"}]}
EVERY_CASE = {case for cases in GROUPS.values() for case in cases}


def document(body: dict[str, Any], words: list[str], finish: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 7, "completion_tokens": len(words), "total_tokens": 7 + len(words)}
    choice = {"index": 0, "message": {"role": "assistant", "content": " ".join(words)}, "finish_reason": finish}
    told = {"id": "c1", "object": "chat.completion", "created": 1, "model": body.get("model", MODEL)}
    return {**told, "choices": [choice], "usage": usage}


def events(body: dict[str, Any], words: list[str], finish: str) -> bytes:
    said = event(role="assistant") + b"".join(event(content=word + " ") for word in words) + event(finish_reason=finish)
    if (body.get("stream_options") or {}).get("include_usage"):
        counts = {**document(body, words, finish), "object": "chat.completion.chunk", "choices": []}
        said += b"data: " + json.dumps(counts).encode() + b"\n\n"
    return said + b"data: [DONE]\n\n"


async def obedient(request: Received) -> None:
    """A model that keeps to the most tokens and to stop words."""
    body = request.json
    words = WORDS.split()[: body.get("max_tokens") or body.get("max_completion_tokens") or 3]
    for stop in body.get("stop") or []:
        words = words[: words.index(stop)] if stop in words else words
    finish = "length" if body.get("max_tokens") == 1 else "stop"
    if not body.get("stream"):
        await request.json_answer(200, document(body, words, finish))
        return
    await request.head()
    await request.chunk(events(body, words, finish))
    await request.end()


def results(gateway: Gateway) -> dict[str, Result]:
    return {result.case: result for result in run(gateway)}


async def test_our_gateway_passes_every_case(house: HouseFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_S", 0.5)
    async with house(
        edge=ScriptedRuntime(obedient), cloud=ScriptedRuntime(obedient), auth=KEYS, timeouts={"body_s": 0.5}
    ) as h:
        found = await asyncio.to_thread(results, Gateway(h.gateway.url, f"test.{SECRET}", "auto", 20))
    assert len(found) == len(EVERY_CASE)
    assert not [result for result in found.values() if result.outcome is Outcome.FAILED]
    # Of those that say nothing here: a burst need not be too much.
    assert {r.case for r in found.values() if r.outcome is Outcome.NOT_APPLICABLE} <= {
        "Who is turned away is told when to come back"
    }


async def test_a_gateway_that_is_too_busy_passes_where_it_says_when_to_come_back(house: HouseFactory) -> None:
    let_go = asyncio.Event()

    async def held(request: Received) -> None:
        await let_go.wait()
        await obedient(request)

    async with house(edge=ScriptedRuntime(held), cloud=ScriptedRuntime(held), limits={"concurrent_requests": 1}) as h:
        case = errors.who_is_turned_away_is_told_when_to_come_back
        asked = asyncio.create_task(asyncio.to_thread(case, Gateway(h.gateway.url, None, "auto", 20)))
        await h.until_settled(10)
        let_go.set()
        await asked


# What is said to a request: its head and body, to bytes. Each of these breaks rules, and no others on purpose.
Says = Callable[[bytes, dict[str, Any]], bytes]


def whole(status: int, kind: str, body: bytes, fields: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{fields}\r\n".encode() + body


def fine(_: bytes, body: dict[str, Any]) -> bytes:
    """An ordinary answer, whatever was asked."""
    if body.get("stream") is True:
        return whole(200, "text/event-stream", events(body, WORDS.split(), "stop"))
    return whole(200, "application/json", json.dumps(document(body, WORDS.split(), "stop")).encode())


def streaming(change: Callable[[bytes], bytes], kind: str = "text/event-stream") -> Says:
    """Streams that are changed before they are sent."""
    return lambda _, body: whole(200, kind, change(events(body, WORDS.split(), "stop")))


def refusing(status: int, error: Any, kind: str = "application/json") -> Says:
    """The same refusal, whatever was asked."""
    return lambda *_: whole(status, kind, json.dumps(error).encode())


def counting(_: bytes, body: dict[str, Any]) -> bytes:
    return whole(200, "text/event-stream", events({**body, "stream_options": {"include_usage": True}}, ["a"], "stop"))


def torn(head: bytes, body: dict[str, Any]) -> bytes:
    return fine(head, body)[:-3]


def injecting(head: bytes, body: dict[str, Any]) -> bytes:
    return fine(head, body).replace(b"\r\n\r\n", b"\r\nx-injected: 1\r\n\r\n", 1)


def without_end(head: bytes, body: dict[str, Any]) -> bytes:
    return b"\r\n".join(line for line in fine(head, body).split(b"\r\n") if not line.startswith(b"content-length"))


def in_chunks(*_: object) -> bytes:
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"


def repeating(head: bytes, body: dict[str, Any]) -> bytes:
    error = {"message": json.dumps(body.get("messages")) + head.decode(), "type": "x", "param": None, "code": None}
    return whole(401, "application/json", json.dumps({"error": error}).encode())


def shapeless(head: bytes, body: dict[str, Any]) -> bytes:
    return fine(head, body).replace(b'"object"', b'"subject"').replace(b'"total_tokens": 10', b'"total_tokens": 99')


def falsely_packed(head: bytes, body: dict[str, Any]) -> bytes:
    return fine(head, body).replace(b"content-type", b"content-encoding: gzip\r\ncontent-type", 1)


PLAIN = {"message": "no", "type": "invalid_request_error"}
DONE = b"data: [DONE]\n\n"
SINS: list[tuple[Says, tuple[Case, ...]]] = [
    (
        fine,
        (
            answers.one_token_at_most_is_one_token,
            answers.a_stop_word_ends_the_answer_and_is_no_part_of_it,
            answers.several_answers_are_given_or_refused,
            answers.a_tool_that_must_be_called_is_called_or_refused,
            answers.a_schema_is_kept_or_refused,
            answers.a_wish_for_json_is_kept_or_refused,
            answers.a_shape_that_nobody_knows_is_refused,
            answers.log_probabilities_are_given_or_refused,
            *set(errors.CASES)
            - {
                errors.an_error_does_not_repeat_what_was_asked,
                errors.a_destination_in_a_body_is_never_called,
                errors.head_and_options_are_answered_without_a_fault,
                errors.who_is_turned_away_is_told_when_to_come_back,
            },
            streams.what_cannot_be_streamed_is_refused_before_a_stream_begins,
            *(
                case
                for case in framing.CASES
                if case.__name__.endswith(("refused", "announced", "given_up"))
                and case is not framing.a_compressed_body_is_read_or_refused
            ),
        ),
    ),
    (shapeless, (answers.an_answer_has_the_shape_of_a_chat_completion, answers.the_counts_of_an_answer_add_up)),
    (
        refusing(500, {"error": PLAIN}),
        (
            answers.a_field_that_nobody_knows_passes_or_is_refused_by_name,
            answers.a_turn_that_only_calls_tools_needs_no_content,
            errors.head_and_options_are_answered_without_a_fault,
            errors.who_is_turned_away_is_told_when_to_come_back,
            errors.a_destination_in_a_body_is_never_called,
            streams.a_caller_that_hangs_up_takes_no_place_with_it,
            framing.a_body_in_chunks_is_read,
            framing.a_compressed_body_is_read_or_refused,
            framing.fields_after_a_body_change_nothing,
            framing.two_requests_sent_at_once_are_answered_in_turn,
            framing.an_offer_of_another_protocol_is_passed_over,
            framing.after_all_that_a_request_is_answered,
        ),
    ),
    (refusing(400, "no", "text/plain"), (errors.an_error_has_the_shape_that_clients_read,)),
    (refusing(429, {"error": PLAIN}), (errors.who_is_turned_away_is_told_when_to_come_back,)),
    (repeating, (errors.an_error_does_not_repeat_what_was_asked, errors.a_wrong_key_is_a_401_and_is_not_repeated)),
    (injecting, (framing.a_field_cannot_put_another_into_the_answer,)),
    (falsely_packed, (framing.a_compressed_answer_is_what_its_head_says,)),
    (lambda *_: b"", (framing.a_caller_that_waits_for_a_go_ahead_is_answered,)),
    (torn, (streams.a_connection_lives_on_after_a_stream, framing.after_all_that_a_request_is_answered)),
    (in_chunks, (framing.an_old_client_gets_no_chunks,)),
    (without_end, (streams.a_stream_marks_its_own_end,)),
    (counting, (streams.counts_stay_away_where_they_are_not_asked_for,)),
    (streaming(bytes, "application/json"), (streams.a_stream_says_that_it_is_one,)),
    (streaming(lambda s: s.replace(b"two", b"\xf0\x9f")), (streams.a_stream_is_utf8,)),
    (
        streaming(lambda s: s.replace(b'"c1"', b'"c2"', 1)),
        (streams.each_event_of_a_stream_is_a_chunk_of_one_answer,),
    ),
    (streaming(lambda s: s.replace(b"assistant", b"robot")), (streams.the_pieces_of_a_stream_make_an_answer,)),
    (streaming(lambda s: s.replace(b'"stop"', b"null")), (streams.a_choice_ends_with_one_reason,)),
    (streaming(lambda s: s + DONE), (streams.a_stream_ends_with_one_done, streams.nothing_comes_after_done)),
    (streaming(lambda s: s.removesuffix(DONE)), (streams.a_stream_ends_with_one_done,)),
    (streaming(lambda s: s + event(content="more")), (streams.nothing_comes_after_done,)),
    (
        streaming(lambda s: s.replace(b'"usage"', b'"wasage"')),
        (streams.counts_come_once_where_they_are_asked_for, streams.counts_come_in_the_last_chunk),
    ),
    (
        lambda _, body: whole(
            200, "application/json", json.dumps({**document(body, ["a"], "stop"), "usage": None}).encode()
        ),
        (streams.options_of_streams_are_refused_without_a_stream,),
    ),
]


@contextlib.asynccontextmanager
async def sinful(says: Says) -> AsyncIterator[str]:
    """A server that reads a head and as much body as it names, and says the same thing come what may."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [
                line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
            ]
            length = int(lengths[0]) if lengths and lengths[0].strip().isdigit() else 0
            raw = b"" if b"expect:" in head else await reader.readexactly(length)
            body: dict[str, Any] = {}
            with contextlib.suppress(ValueError, RecursionError):
                read = json.loads(raw)
                body = read if isinstance(read, dict) else {}
            writer.write(says(head, body))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=4 << 20)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(("says", "cases"), SINS)
async def test_a_case_fails_on_a_server_that_breaks_its_rule(says: Says, cases: tuple[Case, ...]) -> None:
    async with sinful(says) as url:
        found = await asyncio.to_thread(lambda: list(run(Gateway(url, "k", "m", 0.5), {"broken": cases})))
    assert not [result for result in found if result.outcome is not Outcome.FAILED or not result.why]


def test_each_case_has_a_server_that_breaks_its_rule() -> None:
    assert {case for _, cases in SINS for case in cases} == EVERY_CASE


async def test_the_command_tells_what_fails_and_ends_with_1() -> None:
    async with sinful(fine) as url:
        command = ("-m", "gateway.cli", "conformance", "--url", url, "--model", "m", "--patience-s", "0.3", "--json")
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
        printed, _ = await process.communicate()
    told = json.loads(printed)
    assert process.returncode == 1
    assert len(told["cases"]) == len(EVERY_CASE)
    assert {each["case"] for each in told["cases"] if each["outcome"] == "failed"} >= {
        "A body that is no JSON is a 400",
        "Two lengths of a body are refused",
    }
    assert 0 < told["share_passed"] < 1


def test_what_does_not_apply_counts_neither_way() -> None:
    outcomes = (Outcome.PASSED, Outcome.FAILED, Outcome.NOT_APPLICABLE)
    assert share_passed([Result("g", "c", outcome, "", 1.0) for outcome in outcomes]) == 0.5
