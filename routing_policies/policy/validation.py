"""What is wrong with a document beside its conditions: fields, types, words, ids, and names of targets."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from routing_policies.policy.errors import PolicyError, choice
from routing_policies.policy.model import Policy
from routing_policies.policy.yaml_source import Path, Source

_UNTOLD = object()
_KEY_MARK = "[key]"  # how the validator says that a mapping's key is wrong, not its value


def first_error(
    error: ValidationError, source: Source, model: type[BaseModel], *, secret: Collection[str] = ()
) -> PolicyError:
    """Turn what the validator found into one error: the first in the document, a typo before what is missing for it.

    Args:
        error: What it found.
        source: The document.
        model: What it was held against.
        secret: Names of fields of which no value is repeated, nor of what stands below them.
    """
    found = [
        (details["type"] == "missing", _one_error(_without_secrets(details, secret), source, model))
        for details in error.errors()
    ]
    return min(found, key=lambda each: (each[0], each[1].line, each[1].column))[1]


def _without_secrets(details: ErrorDetails, secret: Collection[str]) -> ErrorDetails:
    return {**details, "input": _UNTOLD} if not set(secret).isdisjoint(map(str, details["loc"])) else details


def first_fault(error: ValidationError, model: type[BaseModel]) -> str:
    """Say what the validator found first, for what is no document with places in it."""
    details = error.errors()[0]
    return _in_words(details, _path_of(details), model)


def _one_error(details: ErrorDetails, source: Source, model: type[BaseModel]) -> PolicyError:
    path = _path_of(details)
    at_key = _KEY_MARK in details["loc"] or details["type"] == "extra_forbidden"
    return source.error(path, _in_words(details, path, model), at_key=at_key)


def _path_of(details: ErrorDetails) -> Path:
    return tuple(part for part in details["loc"] if part != _KEY_MARK)


def _in_words(details: ErrorDetails, path: Path, model: type[BaseModel]) -> str:
    message = _message(details, path, model)
    # A rule between fields belongs to none of them and names them itself.
    return f"`{'.'.join(str(part) for part in path)}`: {message}" if path else message


def _message(details: ErrorDetails, path: Path, model: type[BaseModel]) -> str:
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown field{choice(str(path[-1]), _fields_at(path[:-1], model))}"
    if kind == "missing":
        return "this field is missing"
    if kind in {"enum", "literal_error"}:
        words = str(context["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
        return f"not {_shown(given)}{choice(str(given), words)}"
    if kind == "json_invalid":
        return f"not JSON: {context['error']}"
    if kind == "value_error":
        return str(context["error"])
    return _expected(kind, details["msg"], given, context)


def _expected(kind: str, message: str, given: Any, context: Mapping[str, Any]) -> str:
    """What a value must be, and what may be meant."""
    if kind == "too_short":  # lists and mappings, as is the next one
        return f"needs at least {context['min_length']}"
    if kind == "too_long":
        return f"may have {context['max_length']} at most"
    if kind == "string_type":
        quotes = "; put it in quotes" if isinstance(given, (bool, int, float)) else ""
        return f"must be text, not {_shown(given)}{quotes}"
    if kind in {"tuple_type", "list_type"}:
        brackets = f"; write `[{given}]`" if isinstance(given, str) else ""
        return f"must be a list, not {_shown(given)}{brackets}"
    return f"{message.removeprefix('Input ').removeprefix('String ')}, not {_shown(given)}"


def _shown(value: Any) -> str:
    if value is _UNTOLD:
        return "what stands there"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    return f"`{value}`" if isinstance(value, str) else json.dumps(value)


def _fields_at(path: Path, model: Any) -> list[str]:
    """The names of the fields that the model has at a path: follows annotations through lists and mappings."""
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            by_name = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
            model = by_name.get(str(part))
        else:
            model = next((arg for arg in reversed(get_args(model)) if arg is not Ellipsis), None)
        inner = [arg for arg in get_args(model) if arg is not type(None)]
        if type(None) in get_args(model) and len(inner) == 1:
            model = inner[0]
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def check_references(policy: Policy, source: Source) -> None:
    """Check what crosses fields.

    Raises:
        PolicyError: An id or name is used twice, a rule or test names what is not there, or currencies differ.
    """
    _check_unique(source, _ids(policy))
    _check_unique(source, ((("tests", i, "name"), test.name) for i, test in enumerate(policy.tests)))
    for path, name in _named_targets(policy):
        if name not in policy.targets:
            raise source.error(path, f"there is no target `{name}`{choice(name, policy.targets)}")
    known = {rule_id for _, rule_id in _ids(policy)}
    for index, test in enumerate(policy.tests):
        rule = test.expect.rule
        if rule is not None and rule not in known:
            raise source.error(("tests", index, "expect", "rule"), f"there is no rule `{rule}`{choice(rule, known)}")
    _check_currency(policy, source)


def _check_unique(source: Source, items: Iterator[tuple[Path, str]]) -> None:
    seen: set[str] = set()
    for path, word in items:
        if word in seen:
            raise source.error(path, f"`{word}` is used twice; every rule and test needs a name of its own")
        seen.add(word)


def _ids(policy: Policy) -> Iterator[tuple[Path, str]]:
    for section in ("constraints", "prefer", "invariants"):
        for index, rule in enumerate(getattr(policy, section)):
            yield (section, index, "id"), rule.id


def _named_targets(policy: Policy) -> Iterator[tuple[Path, str]]:
    for index, constraint in enumerate(policy.constraints):
        for at, name in enumerate(constraint.deny or ()):
            yield ("constraints", index, "deny", at), name
    for index, preference in enumerate(policy.prefer):
        yield ("prefer", index, "target"), preference.target
    for index, test in enumerate(policy.tests):
        for name in test.given.targets:
            yield ("tests", index, "given", "targets", name), name
        for at, name in enumerate(test.expect.eligible or ()):
            yield ("tests", index, "expect", "eligible", at), name
        if test.expect.target is not None:
            yield ("tests", index, "expect", "target"), test.expect.target


def _check_currency(policy: Policy, source: Source) -> None:
    """Costs are compared as numbers, so they must be of one currency."""
    first: str | None = None
    for name, target in policy.targets.items():
        if target.price is None:
            continue
        first = first or target.price.currency
        if target.price.currency != first:
            path: Path = ("targets", name, "price", "currency")
            raise source.error(path, f"all prices must be in one currency, and the first one is in {first}")
