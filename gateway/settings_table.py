"""Every setting with its kind, its bounds and its default, as the models have them: part of `docs/telemetry.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from gateway.settings import Settings

_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "maxLength": "{} characters at most",
    "minItems": "{} or more",
}
_LONGEST_DEFAULT = 60
Schema = Mapping[str, Any]


def setting_rows() -> Iterator[tuple[str, str, str]]:
    """Yield each setting's name, kind and default. `NAME` stands for a name that the file gives, `[]` for an entry."""
    schema = Settings.model_json_schema()
    yield from _rows(schema, schema["$defs"], "")


def _rows(schema: Schema, known: Schema, prefix: str) -> Iterator[tuple[str, str, str]]:
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        path = f"{prefix}{name}"
        inner = list(_inner(field, known, path))
        for model, below in inner:
            yield from _rows(model, known, below)
        if not inner:
            yield path, _kind(field, known), _default(field, is_required=name in required)


def _inner(field: Schema, known: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    """Yield the models whose fields stand below this one, each with what their names begin with."""
    for each in field.get("anyOf", (field,)):
        for found, below in (
            (each, f"{path}."),
            (_values(each), f"{path}.NAME."),
            (each.get("items"), f"{path}[]."),
        ):
            model = _resolved(found, known) if isinstance(found, Mapping) else {}
            if "properties" in model:
                yield model, below


def _values(field: Schema) -> Any:
    """What a mapping leads to, whatever its names may be."""
    return next(iter(field.get("patternProperties", {}).values()), field.get("additionalProperties"))


def _kind(field: Schema, known: Schema) -> str:
    """Say what may stand there."""
    if "anyOf" in field:
        return " or ".join(_kind(each, known) for each in field["anyOf"] if each.get("type") != "null")
    field = _resolved(field, known)
    if "enum" in field or "const" in field:
        return ", ".join(f"`{word}`" for word in field.get("enum", (field.get("const"),)))
    kind = {"path": "path", "date-time": "moment"}.get(field.get("format", field.get("type")), "")
    kind = kind or str(field.get("type", "value"))
    if kind == "array":
        kind = f"list of {_kind(field['items'], known)}" if isinstance(field.get("items"), Mapping) else "list"
    elif kind == "object":
        inner = _values(field)
        kind = f"mapping to {_kind(inner, known)}" if isinstance(inner, Mapping) else "mapping"
    told = [text.format(_number(field[bound])) for bound, text in _BOUNDS.items() if bound in field]
    return ", ".join((kind, *told))


def _default(field: Schema, *, is_required: bool) -> str:
    if is_required:
        return "must be given"
    if "default" not in field or field["default"] in (None, [], {}, ""):
        return ""
    text = orjson.dumps(field["default"]).decode().strip('"')
    return f"`{text}`" if len(text) <= _LONGEST_DEFAULT else ""


def _resolved(field: Schema, known: Schema) -> Schema:
    reference = field.get("$ref")
    found: Schema = field if reference is None else known[reference.rpartition("/")[2]]
    return found


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
