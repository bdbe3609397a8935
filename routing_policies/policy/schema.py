"""The JSON Schema of the policy document, for editors. docs/policy.schema.json is this one; a test holds them together.

The loader knows more: what crosses fields and what stands in conditions.
"""

from __future__ import annotations

from typing import Any

from routing_policies.policy.model import Policy
from routing_policies.signals.label import DataClass


def document_schema() -> dict[str, Any]:
    """Return the schema, in JSON Schema's draft 2020-12."""
    schema = Policy.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    words = [level.word for level in DataClass]
    definitions["DataClass"] = {"title": "DataClass", "type": "string", "enum": words}
    definitions["Constraint"]["oneOf"] = [{"required": ["deny"]}, {"required": ["require"]}]
    _use_words(schema, words)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Tidegate policy"}


def _use_words(node: Any, words: list[str]) -> None:
    """Write defaults of classes as the document does: the model holds them as numbers."""
    if isinstance(node, dict):
        if node.get("$ref") == "#/$defs/DataClass" and isinstance(node.get("default"), int):
            node["default"] = words[node["default"]]
        for value in node.values():
            _use_words(value, words)
    elif isinstance(node, list):
        for value in node:
            _use_words(value, words)
