from __future__ import annotations

import json
from pathlib import Path

import pytest

from routing_policies.policy.errors import PolicyError
from routing_policies.policy.layout import formatted
from routing_policies.policy.loader import builtin_names, read_policy, read_text
from routing_policies.policy.model import Policy
from routing_policies.policy.schema import document_schema

ROOT = Path(__file__).parents[2]

UNTIDY = """\


# About the file.

# Who may answer.
targets:
  edge: {kind: edge, clearance: restricted}   # this box\t


  cloud: {kind: cloud, clearance: internal}
name: untidy   # a name
# Always the same.
apiVersion: tidegate/v1
"""

TIDY = """\
# About the file.

# Who may answer.
# Always the same.
apiVersion: tidegate/v1
name: untidy   # a name
targets:
  edge: {kind: edge, clearance: restricted}   # this box

  cloud: {kind: cloud, clearance: internal}
"""


def test_sections_come_in_the_documents_order_and_comments_stay() -> None:
    assert formatted(UNTIDY, "a") == TIDY
    assert formatted(TIDY, "a") == TIDY
    assert read_text(TIDY, "a").digest == read_text(UNTIDY, "a").digest


@pytest.mark.parametrize("name", builtin_names())
def test_built_in_policies_are_formatted(name: str) -> None:
    text = read_policy(name).source.text
    assert formatted(text, name) == text


@pytest.mark.parametrize(
    "text",
    [
        "{apiVersion: tidegate/v1, name: a, targets: {edge: {kind: edge, clearance: public}}}\n",
        "  name: a\n  apiVersion: tidegate/v1\n",
        "name: 'a  \n\n\n\n  b'\napiVersion: tidegate/v1\n",
    ],
)
def test_what_cannot_be_formatted_safely_is_refused(text: str) -> None:
    with pytest.raises(PolicyError, match="cannot be formatted"):
        formatted(text, "site.yaml")


def test_the_published_schema_is_that_of_the_code() -> None:
    published = json.loads((ROOT / "docs" / "policy.schema.json").read_text(encoding="utf-8"))
    assert published == document_schema(), "run `tidegate policy schema > docs/policy.schema.json`"


def test_the_schema_speaks_the_documents_words() -> None:
    schema = document_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {field.alias or name for name, field in Policy.model_fields.items()}
    assert schema["$defs"]["DataClass"]["enum"] == ["public", "internal", "confidential", "restricted"]
    assert schema["$defs"]["Defaults"]["properties"]["class"]["default"] == "confidential"


def test_the_line_that_ends_a_document_stays_its_last() -> None:
    document = "---\nname: a\napiVersion: tidegate/v1\ntargets: {edge: {kind: edge, clearance: restricted}}\n...\n"

    found = formatted(document, "x")

    assert found.splitlines()[:3] == ["---", "apiVersion: tidegate/v1", "name: a"]
    assert found.splitlines()[-1] == "..."
