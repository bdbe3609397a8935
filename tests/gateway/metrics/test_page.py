"""docs/telemetry.md is what the code says, and the code says something of every name that it has."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.access_settings import ApiKey
from gateway.issuer_settings import IssuerSettings
from gateway.metrics import instruments, vocabulary
from gateway.metrics.page import page
from gateway.settings import Settings
from gateway.settings_table import setting_rows
from gateway.target_settings import TargetSettings
from inference_protocol import headers
from inference_protocol import telemetry_names as names
from observability.delivery import OF_DELIVERY
from tests.test_settings_docs import fields

ROOT = Path(__file__).parents[3]


def literals(module: object) -> dict[str, str]:
    return {name: value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)}


def test_the_page_is_what_the_code_makes() -> None:
    found = (ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8")
    assert found == page(), "run: python -m gateway.metrics.page > docs/telemetry.md"


def test_every_attribute_is_described() -> None:
    attributes = {value for name, value in literals(names).items() if not name.startswith("METRIC_")}
    assert set(vocabulary.ATTRIBUTES) == attributes


def test_every_header_is_described() -> None:
    described = {*vocabulary.REQUEST_HEADERS, *vocabulary.ANSWER_HEADERS, *vocabulary.RUNTIME_HEADERS}
    assert described == set(literals(headers).values()) - {headers.OWN_PREFIX}


def test_every_metric_that_has_a_name_is_an_instrument_with_described_attributes() -> None:
    client = [*instruments.client_instruments("genai-0.1").all, *instruments.client_instruments("semconv-1.41").all]
    all_of_them = [*instruments.OF_REQUESTS, *instruments.OF_STATE, *OF_DELIVERY, *client]
    assert {each.name for each in all_of_them} == {v for n, v in literals(names).items() if n.startswith("METRIC_")}
    assert {name for each in all_of_them for name in each.attributes} <= set(vocabulary.ATTRIBUTES)


def test_the_page_has_every_setting_that_is_described() -> None:
    models = {"targets": TargetSettings, "auth.issuers": IssuerSettings, "auth.keys": ApiKey}
    described = set(fields(Settings)) - set(models)
    described |= {f"{name}.{field}" for name, model in models.items() for field in fields(model)}
    assert {re.sub(r"\.NAME|\[\]", "", name) for name, *_ in setting_rows()} == described


def test_a_setting_is_shown_with_its_kind_its_bounds_and_its_default() -> None:
    shown = {name: rest for name, *rest in setting_rows()}
    assert shown["telemetry.sample_ratio"] == ["number, at least 0, at most 1", "`1.0`"]
    assert shown["telemetry.log_format"] == ["`text`, `json`", "`text`"]
    assert shown["targets.NAME.endpoints"] == ["list of string, 1 or more", "must be given"]
    assert shown["attempts.hedge_after"] == ["`never`, `p95` or number", "`never`"]
