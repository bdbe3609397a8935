"""docs/settings.md names every setting, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from gateway.access_settings import ApiKey
from gateway.issuer_settings import IssuerSettings
from gateway.settings import Settings
from gateway.target_settings import TargetSettings

TEXT = (Path(__file__).parent.parent / "docs" / "settings.md").read_text(encoding="utf-8")


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = next(
            (
                a
                for a in (field.annotation, *get_args(field.annotation))
                if isinstance(a, type) and issubclass(a, BaseModel)
            ),
            None,
        )
        if inner is not None and inner not in (ApiKey, IssuerSettings, TargetSettings):
            yield from fields(inner, f"{prefix}{name}.")
        else:
            yield prefix + name


def rows(heading: str) -> set[str]:
    """The names in the first column of the table under a heading."""
    section = TEXT.split(heading, 1)[1].split("\n## ", 1)[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([a-z0-9_.]+)`", cell)}


def test_every_setting_is_documented_and_nothing_else_is() -> None:
    documented = rows("## Fields")
    assert documented == set(fields(Settings))


def test_every_field_of_a_target_is_documented_and_nothing_else_is() -> None:
    assert rows("## A target") == set(fields(TargetSettings))


def test_every_field_of_an_issuer_is_documented_and_nothing_else_is() -> None:
    assert rows("## An issuer") == set(fields(IssuerSettings))


def test_every_field_of_a_key_is_documented_and_nothing_else_is() -> None:
    assert rows("## A caller's key") == set(fields(ApiKey))
