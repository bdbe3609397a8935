"""`GET /v1/models` and what it leads to, by OpenAI's own client too."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from tests.gateway.conftest import HouseFactory
from tests.support.running_gateway import running_gateway, settings_for
from tests.support.scripted_runtime import ScriptedRuntime
from tests.support.tokenizer import write_word_tokenizer


async def test_one_model_is_told_as_the_list_tells_it(house: HouseFactory) -> None:
    async with house() as h:
        listed = (await h.gateway.client.get("/v1/models")).json()["data"]
        assert listed[0]["id"] == "auto"
        for row in listed:
            assert (await h.gateway.client.get(f"/v1/models/{row['id']}")).json() == row


async def test_openais_client_retrieves_a_model(house: HouseFactory) -> None:
    async with house() as h, openai.AsyncOpenAI(base_url=f"{h.gateway.url}/v1", api_key="unused") as client:
        found = await client.models.retrieve("auto")
        assert (found.id, found.object) == ("auto", "model")
        with pytest.raises(openai.NotFoundError, match="no such model"):
            await client.models.retrieve("gpt-4")


@pytest.mark.parametrize("name", ["none", "a/b", "auto%00", "..%2f..%2fstatus", "%ff", "a" * 2000])
async def test_a_name_that_is_none_is_a_404(house: HouseFactory, name: str) -> None:
    async with house() as h:
        answer = await h.gateway.client.get(f"/v1/models/{name}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


async def test_a_name_may_hold_a_slash(tmp_path: Path) -> None:
    async with ScriptedRuntime() as edge, ScriptedRuntime() as cloud:
        settings = settings_for(tmp_path, edge=edge.endpoint, cloud=cloud.endpoint)
        own = settings.targets["edge"]
        slashed = own.model_copy(update={"models": {**own.models, "org/large": "large"}})
        settings = settings.model_copy(update={"targets": {**settings.targets, "edge": slashed}})
        write_word_tokenizer(tmp_path / "models" / "smollm2-135m-instruct-q4_1")
        async with running_gateway(settings) as gateway:
            found = await gateway.client.get("/v1/models/org/large")
            assert (found.status_code, found.json()["targets"]) == (200, ["edge"])
