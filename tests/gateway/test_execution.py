"""What computed an answer: passed on as a runtime of ours says it, and never believed of anybody else."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from gateway.targets.status import targets_status
from inference_protocol.execution import Execution
from inference_protocol.provider_policy import Work
from inference_protocol.runtime_state import ProviderUse
from routing_policies.snapshot import Health
from tests.support.running_gateway import running_gateway, settings_for
from tests.support.scripted_runtime import USAGE, Answer, Received, ScriptedRuntime, says, state
from tests.support.waiting import until

HEADER = "x-tidegate-provider"
TOLD = "CPUExecutionProvider; instead-of=ggml"


def answering(told: str) -> Answer:
    async def answer(request: Received) -> None:
        choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
        body = {"id": "c", "object": "chat.completion", "model": request.json["model"], "choices": [choice]}
        await request.json_answer(200, {**body, "usage": USAGE}, extra=f"{HEADER}: {told}\r\n")

    return answer


async def asked(folder: Path, told: str, protocol: str = "tidegate") -> tuple[httpx.Response, list[dict[str, object]]]:
    """An answer, and the attributes of the attempt's span by their names."""
    async with ScriptedRuntime(answering(told)) as edge:
        settings = settings_for(folder, edge=edge.endpoint, cloud=edge.endpoint, protocol=protocol)
        async with running_gateway(settings) as gateway:
            await until(lambda: gateway.app.targets["edge"].health is Health.UP)
            answer = await gateway.chat(headers={"x-data-class": "restricted"})
    return answer, attributes_of_spans(folder)


def attributes_of_spans(folder: Path) -> list[dict[str, object]]:
    return [
        {each["key"]: each["value"].get("stringValue") for each in span["attributes"]}
        for path in folder.glob("traces/*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


async def test_what_a_runtime_says_stands_in_the_answer_and_on_the_attempts_span(tmp_path: Path) -> None:
    answer, spans = await asked(tmp_path, TOLD)
    assert (answer.status_code, answer.headers[HEADER]) == (200, TOLD)
    (attempt,) = (span for span in spans if "tidegate.execution_provider" in span)
    assert attempt["tidegate.execution_provider"] == "CPUExecutionProvider"
    assert attempt["tidegate.execution_provider.instead_of"] == "ggml"


@pytest.mark.parametrize(
    ("told", "protocol"),
    [(TOLD, "openai"), ("ggml, and more", "tidegate"), ("x" * 65, "tidegate"), ("ggml; instead-of=", "tidegate")],
)
async def test_what_another_server_says_and_what_cannot_be_read_is_not_passed_on(
    tmp_path: Path, told: str, protocol: str
) -> None:
    answer, spans = await asked(tmp_path, told, protocol)
    assert answer.status_code == 200
    assert HEADER not in answer.headers
    assert not any("tidegate.execution_provider" in span for span in spans)


async def test_the_status_says_what_runs_where_and_why_not_elsewhere(tmp_path: Path) -> None:
    use = ProviderUse(
        model="m", work=Work.EMBEDDINGS, provider="CPUExecutionProvider", passed_over={"ggml": "in quarantine"}
    )
    async with ScriptedRuntime(says("hi"), state(providers=(use,))) as edge:
        settings = settings_for(tmp_path, edge=edge.endpoint, cloud=edge.endpoint)
        async with running_gateway(settings) as gateway:
            await until(lambda: gateway.app.targets["edge"].health is Health.UP)
            (endpoint,) = targets_status(gateway.app.targets, 0.0)["edge"]["endpoints"]
    assert endpoint["providers"] == [use.model_dump(mode="json")]
    assert json.dumps(endpoint)


@pytest.mark.parametrize("execution", [Execution("ggml"), Execution("CPUExecutionProvider", "ggml")])
def test_a_header_is_read_as_it_was_written(execution: Execution) -> None:
    assert Execution.read(execution.header) == execution
    assert Execution.read(None) is None
