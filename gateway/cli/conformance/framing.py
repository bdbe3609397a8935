"""How bytes on a connection must be taken: what can be read in two ways is refused, what has no end is bounded."""
# ruff: noqa: D103  # the name of a case is the rule that it looks at

from __future__ import annotations

import gzip
import zlib

from gateway.cli.conformance.findings import Violation, error_of, expect
from gateway.cli.conformance.wire import ClosedError, Gateway, Reply
from inference_protocol import headers, paths

_TRICKLE_S = 0.25
_MAX_UNPACKED_BYTES = 16 << 20


def two_lengths_of_a_body_are_refused(gateway: Gateway) -> None:
    body = gateway.body()
    lengths = (f"content-length: {len(body)}", f"content-length: {len(body) + 1}")
    gateway.refusal(gateway.chat(*lengths) + body)


def a_length_beside_chunks_is_refused(gateway: Gateway) -> None:
    body = _in_chunks(gateway.body())
    gateway.refusal(gateway.chat(f"content-length: {len(body)}", "transfer-encoding: chunked") + body)


def a_length_that_is_no_count_is_refused(gateway: Gateway) -> None:
    for length in ("-1", "+5", "0x10", "ten"):
        gateway.refusal(gateway.chat(f"content-length: {length}") + gateway.body())


def a_chunk_whose_size_is_no_number_is_refused(gateway: Gateway) -> None:
    gateway.refusal(gateway.chat("transfer-encoding: chunked") + b"zz\r\n" + gateway.body())


def a_space_before_a_colon_is_refused(gateway: Gateway) -> None:
    body = gateway.body()
    gateway.refusal(gateway.chat(f"content-length : {len(body)}") + body)


def another_protocol_is_refused(gateway: Gateway) -> None:
    gateway.refusal(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")


def a_header_of_a_megabyte_is_refused(gateway: Gateway) -> None:
    body = gateway.body()
    gateway.refusal(gateway.chat("x-much: " + "y" * (1 << 20), f"content-length: {len(body)}") + body)


def a_terabyte_is_refused_when_it_is_announced(gateway: Gateway) -> None:
    gateway.refusal(gateway.chat(f"content-length: {1 << 40}"))


def a_head_that_trickles_is_given_up(gateway: Gateway) -> None:
    with gateway.connected() as connection:
        connection.send(gateway.chat("x-slow: y").removesuffix(b"\r\n\r\n"))
        connection.trickle(b"y", _TRICKLE_S)


def a_body_that_trickles_is_given_up(gateway: Gateway) -> None:
    with gateway.connected() as connection:
        connection.send(gateway.chat("content-length: 100000"))
        connection.trickle(b" ", _TRICKLE_S)


def a_body_in_chunks_is_read(gateway: Gateway) -> None:
    reply = gateway.reply(gateway.chat("transfer-encoding: chunked") + _in_chunks(gateway.body()))
    expect(reply.status in (200, 411), f"it is answered with {reply.status}")


def a_compressed_body_is_read_or_refused(gateway: Gateway) -> None:
    reply = gateway.reply(gateway.sent(gzip.compress(gateway.body()), "content-encoding: gzip"))
    if reply.status != 200:
        error_of(reply.status, reply.json())
    expect(reply.status in (200, 400, 415), f"it is answered with {reply.status}")


def a_body_that_only_claims_to_be_compressed_is_refused(gateway: Gateway) -> None:
    gateway.refusal(gateway.sent(b"\x1f\x8bno gzip", "content-encoding: gzip"))


def a_body_that_unpacks_to_a_thousand_times_its_size_is_refused(gateway: Gateway) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(64)) + packer.flush()
    gateway.refusal(gateway.sent(packed, "content-encoding: gzip"))


def a_compressed_answer_is_what_its_head_says(gateway: Gateway) -> None:
    reply = gateway.reply(gateway.asked("accept-encoding: gzip"))
    coding = reply.field("content-encoding")
    expect(coding in (None, "identity", "gzip"), f"its content-encoding {coding!r} was not offered")
    if coding == "gzip":
        try:
            unpacked = zlib.decompressobj(31).decompress(reply.body, _MAX_UNPACKED_BYTES)
        except zlib.error:
            raise Violation("it says that it is gzip and is none") from None
        reply = Reply(reply.status, reply.fields, unpacked, reply.ends)
    reply.json()


def fields_after_a_body_change_nothing(gateway: Gateway) -> None:
    body = _in_chunks(gateway.body()).removesuffix(b"\r\n") + b"content-length: 7\r\nx-after: 1\r\n\r\n"
    with gateway.connected() as connection:
        connection.send(gateway.chat("transfer-encoding: chunked", "trailer: x-after") + body)
        reply = connection.reply()
        expect(reply.status < 500, f"they are answered with {reply.status}")
        connection.send(gateway.head("GET", paths.MODELS))
        try:
            expect(connection.reply().status == 200, "the next request is not read from where it begins")
        except ClosedError:
            return


def a_field_cannot_put_another_into_the_answer(gateway: Gateway) -> None:
    for value in ("a%0d%0ax-injected: 1", "a\rx-injected: 1", "a\x00x-injected: 1", "a\\r\\nx-injected: 1"):
        body = gateway.body()
        with gateway.connected() as connection:
            lines = (f"{headers.REQUEST_ID}: {value}", f"content-length: {len(body)}")
            connection.send(gateway.chat(*lines) + body)
            try:
                reply = connection.reply()
            except ClosedError:
                continue
        expect(reply.status < 500, f"{value!r} is answered with {reply.status}")
        expect(reply.field("x-injected") is None, f"{value!r} does")


def two_requests_sent_at_once_are_answered_in_turn(gateway: Gateway) -> None:
    with gateway.connected() as connection:
        connection.send(gateway.head("GET", paths.MODELS) + gateway.head("GET", "/v1/nothing-here"))
        expect(connection.reply().status == 200, "the first is not answered first")
        try:
            expect(connection.reply().status == 404, "the second is not answered second")
        except ClosedError:
            return


def a_caller_that_waits_for_a_go_ahead_is_answered(gateway: Gateway) -> None:
    body = gateway.body()
    with gateway.connected() as connection:
        connection.send(gateway.chat(f"content-length: {len(body)}", "expect: 100-continue"))
        expect(connection.some().startswith(b"HTTP/1.1 "), "neither a go-ahead nor an answer comes")


def an_old_client_gets_no_chunks(gateway: Gateway) -> None:
    reply = gateway.reply(gateway.asked(stream=True).replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1))
    expect(reply.ends != "chunks", "a stream for HTTP/1.0 comes in chunks")


def an_offer_of_another_protocol_is_passed_over(gateway: Gateway) -> None:
    offer = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQAAP__")
    reply = gateway.reply(gateway.asked(*offer))
    expect(reply.status == 200, f"an ordinary request with one is answered with {reply.status}")


def after_all_that_a_request_is_answered(gateway: Gateway) -> None:
    gateway.answer()


def _in_chunks(body: bytes) -> bytes:
    half = len(body) // 2
    parts = (body[:half], body[half:])
    return b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts) + b"0\r\n\r\n"


CASES = (
    two_lengths_of_a_body_are_refused,
    a_length_beside_chunks_is_refused,
    a_length_that_is_no_count_is_refused,
    a_chunk_whose_size_is_no_number_is_refused,
    a_space_before_a_colon_is_refused,
    another_protocol_is_refused,
    a_header_of_a_megabyte_is_refused,
    a_terabyte_is_refused_when_it_is_announced,
    a_head_that_trickles_is_given_up,
    a_body_that_trickles_is_given_up,
    a_body_in_chunks_is_read,
    a_compressed_body_is_read_or_refused,
    a_body_that_only_claims_to_be_compressed_is_refused,
    a_body_that_unpacks_to_a_thousand_times_its_size_is_refused,
    a_compressed_answer_is_what_its_head_says,
    fields_after_a_body_change_nothing,
    a_field_cannot_put_another_into_the_answer,
    two_requests_sent_at_once_are_answered_in_turn,
    a_caller_that_waits_for_a_go_ahead_is_answered,
    an_old_client_gets_no_chunks,
    an_offer_of_another_protocol_is_passed_over,
    after_all_that_a_request_is_answered,
)
