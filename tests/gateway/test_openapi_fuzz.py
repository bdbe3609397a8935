"""Requests made of `/openapi.json`, right ones and wrong ones, get the answers that it describes, and never a fault."""

from __future__ import annotations

import asyncio
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, not_a_server_error

from gateway.api.openapi import openapi_document
from gateway.app import OPEN_PATHS
from tests.gateway.conftest import HouseFactory
from tests.gateway.test_identity import bearer, key

EXAMPLES = 8
SCHEMA = schemathesis.openapi.from_dict(openapi_document())
OPERATIONS = [result.ok() for result in SCHEMA.get_all_operations()]
# A request without a body has nothing that could be wrong with it.
CASES = [
    pytest.param(operation, mode, id=f"{operation.label}-{mode.value}")
    for operation in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or operation.method == "post"
]
# What it is held to beside having no fault: each answer is one that the document knows.
HELD_TO = [
    not_a_server_error,
    *(
        CHECKS.get_one(name)
        for name in (
            "status_code_conformance",
            "content_type_conformance",
            "response_headers_conformance",
            "response_schema_conformance",
        )
    ),
]


@pytest.mark.parametrize(("operation", "mode"), CASES)
async def test_every_answer_is_one_that_the_document_knows(
    house: HouseFactory, operation: Any, mode: GenerationMode
) -> None:
    async with house(auth={"local_may": ["finish", "defer"]}) as h:
        url = h.gateway.url

        @hypothesis.settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True)
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            case.call_and_validate(base_url=url, checks=HELD_TO, timeout=20)

        await asyncio.to_thread(ask)


async def test_nobody_is_let_in_by_a_strange_request(house: HouseFactory) -> None:
    async with house(auth={"keys": [key("app1")]}) as h:
        url = h.gateway.url

        @hypothesis.settings(max_examples=EXAMPLES * len(OPERATIONS), deadline=None, database=None, derandomize=True)
        @hypothesis.given(case=st.one_of([operation.as_strategy() for operation in OPERATIONS]))
        def ask(case: Any) -> None:
            for headers in ({}, bearer("app1", "wrong")):
                answer = case.call(base_url=url, headers=headers, timeout=20)
                is_open = case.operation.path in OPEN_PATHS
                assert is_open or answer.status_code in (400, 401, 413, 421, 431), answer.status_code

        await asyncio.to_thread(ask)
        assert not h.edge.posts + h.cloud.posts
