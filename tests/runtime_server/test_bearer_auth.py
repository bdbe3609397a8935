from __future__ import annotations

import pytest

from tests.runtime_server.conftest import RuntimeFactory
from tests.runtime_server.scripted_engine import says

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize("given", [None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"])
async def test_without_the_token_nothing_but_probes_answers(start_runtime: RuntimeFactory, given: str | None) -> None:
    headers = {} if given is None else {"authorization": given}
    async with start_runtime(token=TOKEN) as runtime:
        refused = [
            await runtime.ask(headers=headers),
            *[await runtime.client.get(path, headers=headers) for path in ("/internal/state", "/v1/models", "/none")],
        ]
        assert (await runtime.client.get("/livez")).status_code == 200
        assert runtime.engine.generations == []
    assert {response.status_code for response in refused} == {401}
    assert {response.json()["error"]["code"] for response in refused} == {"authentication_failed"}


async def test_with_the_token_everything_answers(start_runtime: RuntimeFactory) -> None:
    async with start_runtime(token=TOKEN) as runtime:
        runtime.engine.on_submit = says("hello")
        headers = {"authorization": f"bearer {TOKEN}"}
        assert (await runtime.ask(headers=headers)).status_code == 200
        assert (await runtime.client.get("/internal/state", headers=headers)).status_code == 200
