"""Where gateways have let values through: each of these is private however it is brought, so it stays here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.conftest import HouseFactory

KEY = "ghp_a8F5f167f44f4964e6c998dee827110cXYZ1"
IBAN = "DE89 3704 0044 0532 0130 00"
SSN = "SSN 078-05-1120"


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def calling(arguments: str) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
HELLO = user("thanks, and what is DNS?")
MESSAGES = {
    "in an earlier turn": [user(f"my key is {KEY}"), {"role": "assistant", "content": "ok"}, HELLO],
    "in the system prompt": [{"role": "system", "content": SSN}, HELLO],
    "in the developer prompt": [{"role": "developer", "content": SSN}, HELLO],
    "in a tool's result": [calling("{}"), {"role": "tool", "tool_call_id": "c1", "content": f"token={KEY}"}, HELLO],
    "in a tool call's arguments": [calling(json.dumps({"account": IBAN})), HELLO],
    "escaped in arguments": [calling('{"mail":"jane\\u0040corp.com"}'), HELLO],
    "in an answer of the model": [user("hi"), {"role": "assistant", "content": SSN}, HELLO],
    "in one text part of many": [user([{"type": "text", "text": "hello"}, {"type": "text", "text": SSN}])],
    "beside an image": [user([IMAGE, {"type": "text", "text": "what is it?"}])],
    "in an image alone": [user([IMAGE])],
    "in the name of a file": [user([{"type": "file", "file": {"filename": f"{SSN}.txt", "file_data": ""}}])],
    "in the type of a picture": [user([{**IMAGE, "media_type": "jane@corp.com"}, {"type": "text", "text": "hi"}])],
    "in full-width digits": [user("card ４１１１ 1111 1111 1111")],
    "with invisible signs": [user("jane@\u200bcorp.com")],
    "with a Cyrillic letter": [user("my mail is jаne@corp.com")],
    "cut over two messages": [user("4111 1111"), user("1111 1111")],
    "at the end of a line of 2 MB": [user("tide " * (2 << 18) + SSN)],
    "at the beginning of a line of 2 MB": [user(SSN + " tide" * (2 << 18))],
}
FIELDS = {
    "in a tool's description": {"tools": [{"type": "function", "function": {"name": "f", "description": SSN}}]},
    "in an enum of a tool": {
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": {"enum": [IBAN]}}}}}
        ]
    },
    "in metadata": {"metadata": {"note": SSN}},
    "as a key of metadata": {"metadata": {"jane@corp.com": "x"}},
    "in a field that nobody knows": {"brand_new": [{"deep": [SSN]}]},
    "in `user`": {"user": "jane@corp.com"},
    "in a stop string": {"stop": ["jane@corp.com"]},
}


@pytest.mark.parametrize("place", [*MESSAGES, *FIELDS])
async def test_a_value_keeps_a_request_here_wherever_it_stands(house: HouseFactory, place: str) -> None:
    async with house() as h:
        body = {"model": "auto", "messages": MESSAGES.get(place, [HELLO]), **FIELDS.get(place, {})}
        response = await h.gateway.client.post("/v1/chat/completions", json=body)
        assert not h.cloud.posts
        assert response.headers["x-tidegate-label"].split(";")[0] in {"confidential", "restricted"}


@pytest.mark.parametrize(
    ("content_type", "encoded"),
    [
        ("application/json; charset=utf-16", "utf-8"),
        ("application/json; charset=iso-8859-1", "utf-8"),
        ("text/plain", "utf-8"),
        ("application/json; charset=utf-8", "utf-16"),
        ("application/json; charset=utf-16", "utf-16"),
        ("application/json", "utf-8-sig"),
    ],
)
async def test_a_charset_that_lies_hides_nothing(house: HouseFactory, content_type: str, encoded: str) -> None:
    async with house() as h:
        body = json.dumps({"model": "auto", "messages": [user(SSN)]}, ensure_ascii=False).encode(encoded)
        headers = {"content-type": content_type}
        response = await h.gateway.client.post("/v1/chat/completions", content=body, headers=headers)
        assert not h.cloud.posts
        assert response.status_code in {400, 415} or response.headers["x-tidegate-target"] == "edge"
