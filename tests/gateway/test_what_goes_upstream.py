"""What of a caller's request reaches a target: their own bytes, and nothing that is meant for us alone."""

from __future__ import annotations

from tests.gateway.conftest import HouseFactory


async def test_credentials_and_internal_headers_of_the_caller_do_not_travel(house: HouseFactory) -> None:
    async with house() as h:
        sent = {
            "authorization": "Bearer caller-secret",
            "cookie": "session=1",
            "x-api-key": "k",
            "x-tidegate-target": "cloud",
            "x-request-id": "mine-1",
            "baggage": "user=jane",
        }
        response = await h.gateway.chat(headers=sent, cache_salt="stolen")
        upstream = h.edge.posts[0]
        assert upstream.headers.keys() == {
            "host",
            "content-type",
            "content-length",
            "accept",
            "accept-encoding",
            "x-request-id",
            "traceparent",
        }
        assert upstream.headers["x-request-id"] == response.headers["x-request-id"] != "mine-1"
        assert upstream.json["cache_salt"] != "stolen"


async def test_the_body_that_goes_upstream_is_the_callers_own_bytes_but_for_what_is_ours_to_set(
    house: HouseFactory,
) -> None:
    raw = (
        b'{ "model":"smollm2-135m-instruct" ,\n "messages":[{"role":"user","content":"\\u00e9 {\\"}"}],'
        b' "unknown":{"k":1.50}}'
    )
    async with house() as h:
        headers = {"content-type": "application/json"}
        response = await h.gateway.client.post("/v1/chat/completions", content=raw, headers=headers)
        assert response.status_code == 200
        body = h.edge.posts[0].body
        assert body.startswith(raw[:-1])
        assert body[len(raw) - 1 :].startswith(b',"cache_salt":"')
