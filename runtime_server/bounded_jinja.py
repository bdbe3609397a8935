"""Jinja's sandbox with bounds: a template ends in time, and no value in it grows without end.

The sandbox keeps a template from reaching out of it, and leaves it free to run for ever or to fill the memory. So each
turn of a loop and each call looks at the clock, and whatever makes a value larger is looked at before and after.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, cast

import jinja2
from jinja2 import nodes
from jinja2.ext import loopcontrols
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_CHARS = 16 << 20
# No template has use for larger numbers; as a width or a count they are memory.
_LARGEST_INT = 1 << 20
_WIDE_FORMAT = re.compile(r"\d{6}|\*")
# What the names of ours are called in a template, and where its context keeps the clock.
_PACED, _JOINED, _LEASH = "_paced", "_joined", "_leash"

Leash = Callable[[], None]
"""Returns while there is time, and else raises `TemplateTooSlow`."""


class TemplateTooSlow(jinja2.TemplateError):
    """The template's time was over."""


class TooLarge(jinja2.TemplateError):
    """A value in the template grew too large."""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """An environment whose templates are rendered with a leash."""

    intercepted_binops: ClassVar[frozenset[str]] = frozenset({"*", "**", "+", "%"})  # type: ignore[misc]  # Jinja declares it for instances

    def __init__(self) -> None:
        """Set up as Hugging Face's templates expect it."""
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        self.filters = {name: _bounded(each) for name, each in self.filters.items()}
        self.filters[_PACED] = _paced
        self.filters[_JOINED] = _joined

    def template(self, source: str) -> jinja2.Template:
        """Compile a template.

        Raises:
            jinja2.TemplateSyntaxError: It is none.
        """
        tree = self.parse(source)
        for loop in tree.find_all(nodes.For):
            loop.iter = _filtered(cast("nodes.Expr", loop.iter), _PACED)
        code = self.compile(_with_bounded_joins(tree))
        return self.template_class.from_code(self, code, self.make_globals(None))

    def leashed(self, template: jinja2.Template, leash: Leash, **values: Any) -> Iterator[str]:
        """Render piece by piece.

        Raises:
            TemplateTooSlow: The leash said so.
            TooLarge: A value grew too large.
        """
        return template.generate(**values, **{_LEASH: leash})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute what may make a value larger."""
        context[_LEASH]()
        if _is_hopeless(operator, left, right):
            raise TooLarge
        return _sized(super().call_binop(context, operator, left, right))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call what a template calls."""
        __context[_LEASH]()
        _refuse_numbers(args, kwargs)
        if isinstance(owner := getattr(__obj, "__self__", None), str) and _WIDE_FORMAT.search(owner):
            _refuse_format(__obj)
        return _sized(super().call(__context, __obj, *args, **kwargs))


def _bounded(filter_: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(filter_)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        _refuse_numbers(args[1:], kwargs)
        if filter_.__name__ == "do_format" and _WIDE_FORMAT.search(str(args[0])):
            raise TooLarge
        return _sized(filter_(*args, **kwargs))

    return bounded


@jinja2.pass_context
def _paced(context: Context, items: Iterable[Any]) -> Iterator[Any]:
    """Go through a loop's items, as long as there is time."""
    leash: Leash = context[_LEASH]
    for item in items:
        leash()
        yield item


def _joined(parts: list[Any]) -> str:
    texts = [str(part) for part in parts]
    if sum(map(len, texts)) > MAX_CHARS:
        raise TooLarge
    return "".join(texts)


def _with_bounded_joins(tree: nodes.Template) -> nodes.Template:
    """Replace every `~` by the filter that looks at what comes of it."""
    for node in tree.find_all(nodes.Node):
        for name, value in list(node.iter_fields()):
            if isinstance(value, nodes.Concat):
                setattr(node, name, _joining(value))
            elif isinstance(value, list):
                value[:] = [_joining(each) if isinstance(each, nodes.Concat) else each for each in value]
    return tree


def _joining(concat: nodes.Concat) -> nodes.Filter:
    return _filtered(nodes.List(concat.nodes, lineno=concat.lineno), _JOINED)


def _filtered(expression: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(expression, name, [], [], None, None, lineno=expression.lineno)


def _sized(value: Any) -> Any:
    if isinstance(value, str | bytes | list | tuple) and len(value) > MAX_CHARS:
        raise TooLarge
    return value


def _is_hopeless(operator: str, left: Any, right: Any) -> bool:
    """Whether what comes of it would be too large, as far as that can be told before."""
    match operator:
        case "*":
            if isinstance(left, int) and isinstance(right, int):
                return left.bit_length() + right.bit_length() > 128
            pairs = ((left, right), (right, left))
            return any(
                isinstance(n, int) and hasattr(each, "__len__") and n * len(each) > MAX_CHARS for n, each in pairs
            )
        case "**":
            return not (isinstance(left, int | float) and isinstance(right, int) and abs(left) < 64 > abs(right))
        case "%":
            return isinstance(left, str) and _WIDE_FORMAT.search(left) is not None
    return False


def _refuse_numbers(args: Iterable[Any], kwargs: dict[str, Any]) -> None:
    if any(isinstance(each, int) and abs(each) > _LARGEST_INT for each in (*args, *kwargs.values())):
        raise TooLarge


def _refuse_format(method: Any) -> None:
    if getattr(method, "__name__", "") in {"format", "format_map"}:
        raise TooLarge
