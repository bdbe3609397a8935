from __future__ import annotations

import asyncio

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message, Scope

from inference_protocol.errors import BodyTooLarge, InvalidHeader, RequestTimeout, TidegateError, UnsupportedEncoding
from serving.http_request import bearer_token, callers_request_id, read_body


def scope(**fields: str) -> Scope:
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in fields.items()]
    return {"type": "http", "headers": raw}


async def body_of(*messages: Message, limit: int = 4, **fields: str) -> bytes:
    """Read a body that arrives as these messages and then no further."""
    coming = iter(messages)

    async def receive() -> Message:
        message = next(coming, None)
        if message is None:
            await asyncio.Event().wait()
        assert message is not None
        return message

    return await read_body(scope(**fields), receive, max_bytes=limit, timeout_s=0.05)


def part(body: bytes, more_body: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more_body}


async def test_a_body_is_joined_from_its_parts() -> None:
    assert await body_of(part(b"ab", more_body=True), part(b"cd")) == b"abcd"
    assert await body_of(part(b"abcd"), content_length="4", content_encoding="identity") == b"abcd"


@pytest.mark.parametrize(
    ("messages", "fields", "error"),
    [
        ((part(b"ab", True), part(b"cde", True)), {}, BodyTooLarge),
        ((), {"content_length": "5"}, BodyTooLarge),
        ((), {"content_length": "9" * 19}, BodyTooLarge),
        ((), {"content_length": "9" * 5000}, InvalidHeader),
        ((), {"content_length": "\u00b2"}, InvalidHeader),
        ((), {"content_length": "-1"}, InvalidHeader),
        ((), {"content_encoding": "GZIP"}, UnsupportedEncoding),
        ((part(b"ab", True),), {}, RequestTimeout),
    ],
)
async def test_what_passes_a_bound_is_refused_before_the_rest_of_it_is_read(
    messages: tuple[Message, ...], fields: dict[str, str], error: type[TidegateError]
) -> None:
    with pytest.raises(error):
        await body_of(*messages, **fields)


async def test_a_client_that_hangs_up_in_its_body_is_told_from_one_that_is_slow() -> None:
    with pytest.raises(ClientDisconnect):
        await body_of(part(b"ab", more_body=True), {"type": "http.disconnect"})


@pytest.mark.parametrize(
    ("given", "token"),
    [("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("Bearer", None), ("Bearer ", None), ("Basic abc", None),
     (None, None)],
)  # fmt: skip
def test_a_bearer_token_is_told_from_other_credentials(given: str | None, token: str | None) -> None:
    assert bearer_token(given) == token


@pytest.mark.parametrize(("given", "safe"), [("a1.b:c/d+e=", True), ("a b", False), ("a\n", False), ("x" * 129, False)])
def test_only_an_id_that_is_safe_to_repeat_is_taken_over(given: str, safe: bool) -> None:
    assert callers_request_id(scope(x_request_id=given)) == (given if safe else None)
