"""What is wrong with a document beside its conditions: fields, types, words, ids, and names of targets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from routing_policies.policy.errors import PolicyError, choice
from routing_policies.policy.model import Policy
from routing_policies.policy.yaml_source import Path, Source

_KEY_MARK = "[key]"  # how the validator says that a mapping's key is wrong, not its value


def first_error(error: ValidationError, source: Source, model: type[BaseModel]) -> PolicyError:
    """Turn what the validator found into one error: the first in the document, a typo before what is missing for it."""
    found = [(details["type"] == "missing", _one_error(details, source, model)) for details in error.errors()]
    return min(found, key=lambda each: (each[0], each[1].line, each[1].column))[1]


def _one_error(details: ErrorDetails, source: Source, model: type[BaseModel]) -> PolicyError:
    path: Path = tuple(part for part in details["loc"] if part != _KEY_MARK)
    at_key = _KEY_MARK in details["loc"] or details["type"] == "extra_forbidden"
    message = _message(details, path, model)
    if path:  # a rule between fields belongs to none of them and names them itself
        message = f"`{'.'.join(str(part) for part in path)}`: {message}"
    return source.error(path, message, at_key=at_key)


def _message(details: ErrorDetails, path: Path, model: type[BaseModel]) -> str:
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown field{choice(str(path[-1]), _fields_at(path[:-1], model))}"
    if kind == "missing":
        return "this field is missing"
    if kind in {"enum", "literal_error"}:
        words = str(context["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
        return f"not {_shown(given)}{choice(str(given), words)}"
    if kind == "value_error":
        return str(context["error"])
    expected = details["msg"].removeprefix("Input ").removeprefix("String ")
    return f"{expected}, not {_shown(given)}"


def _shown(value: Any) -> str:
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
