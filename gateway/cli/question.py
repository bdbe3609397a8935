"""What `ask` and `explain` share: the question as a chat request, where it goes, and what its answer headers tell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import httpx
import orjson
import typer

from gateway.cli.options import fail
from inference_protocol import headers

Question = Annotated[str, typer.Argument(help="What to ask.")]
BudgetOption = Annotated[int | None, typer.Option("--budget-ms", help="Milliseconds until the whole answer is due.")]
ClassOption = Annotated[str | None, typer.Option("--data-class", help="public, internal, confidential or restricted.")]
MaxTokensOption = Annotated[int | None, typer.Option("--max-tokens", help="Most tokens of the answer.")]
ModelOption = Annotated[str, typer.Option("--model", help="Public model name.")]


# Where one is needed; an option would stand in the history and in lists of processes.
_KEY = "TIDEGATE_KEY"


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as it is sent."""

    fields: Mapping[str, str]
    body: Mapping[str, Any]


def asked(question: str, budget_ms: int | None, data_class: str | None, max_tokens: int | None, model: str) -> Asked:
    """Make the chat request of a question, greedy so that it can be repeated; `TIDEGATE_KEY` holds the caller's key."""
    if not question.strip():
        fail("There is nothing in the question.")
    key = os.environ.get(_KEY)
    fields = {} if key is None else {headers.AUTHORIZATION: f"Bearer {key}"}
    if budget_ms is not None:
        fields[headers.LATENCY_BUDGET_MS] = str(budget_ms)
    if data_class is not None:
        fields[headers.DATA_CLASS] = data_class
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        **({} if max_tokens is None else {"max_tokens": max_tokens}),
    }
    return Asked(fields, body)


def refuse(response: httpx.Response) -> None:
    """End the command with the error that a response holds, if it is not a 200."""
    if response.status_code == 200:
        return
    response.read()
    try:
        error = orjson.loads(response.content)["error"]
        message = f"{error['message']}  ({response.status_code} {error['code']})"
    except (orjson.JSONDecodeError, KeyError, TypeError):
        message = f"HTTP {response.status_code} from something that is not Tidegate."
    request_id = response.headers.get(headers.REQUEST_ID)
    fail(message if request_id is None else f"{message}\nrequest {request_id}")


def unreachable(endpoint: str, error: httpx.TransportError) -> str:
    """Say what to do where the gateway gives no answer."""
    if isinstance(error, httpx.ConnectError):
        return f"Nothing answers at {endpoint}. Start it with `tidegate up`, or name another place with --url."
    return f"The connection to {endpoint} ended ({type(error).__name__})."
