"""A runtime answers the gateway, and no web page in the browser of its machine."""

from __future__ import annotations

from tests.runtime_server.conftest import RuntimeFactory


async def test_a_page_is_refused_and_nothing_is_generated_for_it(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        page = {"origin": "https://evil.example", "content-type": "text/plain"}
        answer = await runtime.client.post("/v1/chat/completions", json=body, headers=page)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "permission_denied")
        assert (await runtime.client.get("/readyz")).status_code == 200
