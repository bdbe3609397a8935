"""A model's own chat template: from messages to the text that the model was trained to continue.

Templates come with the model and are code, so they run in Jinja's sandbox, on copies, with bounds on their time and on
what they write. The environment is the one that templates are written for, Hugging Face's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Never

import jinja2
from jinja2 import meta

from inference_protocol.errors import InvalidField
from runtime_server.bounded_jinja import MAX_CHARS, BoundedEnvironment, Leash, TemplateTooSlow
from runtime_server.tools import OPEN

MAX_RENDERED_CHARS = MAX_CHARS
LONGEST_S = 2.0
# What an expression of a template can raise on messages that it was not written for.
_FAULTS = (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class TemplateUnusable(Exception):
    """The chat template cannot be compiled."""


class _Refused(jinja2.TemplateError):
    """The template called `raise_exception`."""


class ChatTemplate:
    """A compiled template."""

    def __init__(
        self, source: str, special_tokens: Mapping[str, str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Compile it.

        Args:
            source: Jinja.
            special_tokens: Names such as `bos_token` to their text.
            clock: Seconds.

        Raises:
            TemplateUnusable: It is no valid template.
        """
        environment = BoundedEnvironment()
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        try:
            self._template = environment.template(source)
        except jinja2.TemplateSyntaxError as exc:
            raise TemplateUnusable(f"The chat template, line {exc.lineno}: {exc.message}.") from None
        self._environment = environment
        self._source = source
        names = meta.find_undeclared_variables(environment.parse(source))
        self._shows_tools = "tools" in names and OPEN in source
        self._clock = clock
        self._special_tokens = dict(special_tokens)

    @property
    def shows_tools(self) -> bool:
        """Whether it has a place for tools, and for calls in the form that answers are read in."""
        return self._shows_tools

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        opens_answer: bool = True,
        patience_s: float = LONGEST_S,
    ) -> str:
        """Write out a conversation, and the beginning of the assistant's turn.

        Args:
            messages: Each with a role and a content that is a string. `developer` renders as `system` in a template
                that does not know the role.
            tools: That the model may call, in a template that `shows_tools`.
            opens_answer: Whether the assistant's turn is begun.
            patience_s: The time that the template has.

        Raises:
            InvalidField: The template does not take these messages.
            TemplateTooSlow: Its time was over.
        """
        if "developer" not in self._source:
            messages = [{**m, "role": "system"} if m["role"] == "developer" else m for m in messages]
        pieces: list[str] = []
        length = 0
        try:
            for piece in self._environment.leashed(
                self._template,
                self._leash(patience_s),
                messages=messages,
                tools=list(tools) or None,
                add_generation_prompt=opens_answer,
                **self._special_tokens,
            ):
                pieces.append(piece)
                length += len(piece)
                if length > MAX_RENDERED_CHARS:
                    raise InvalidField(
                        f"`messages` come to more than {MAX_RENDERED_CHARS} characters once the model's chat template "
                        "is applied.",
                        param="messages",
                    )
        except TemplateTooSlow:
            raise
        except _Refused as exc:
            raise InvalidField(self._refusal(exc.message or ""), param="messages") from None
        except _FAULTS:
            raise InvalidField("The model's chat template cannot write out these messages.", param="messages") from None
        return "".join(pieces)

    def _leash(self, patience_s: float) -> Leash:
        deadline = self._clock() + patience_s

        def leash() -> None:
            if self._clock() > deadline:
                raise TemplateTooSlow

        return leash

    def _refusal(self, message: str) -> str:
        # Only a message that stands word for word in the template is sure to hold nothing of the conversation.
        said = f": {message}" if message and message in self._source else "."
        return f"The model's chat template refuses these messages{said}"


def _refuse(message: str) -> Never:
    raise _Refused(str(message))


def _to_json(value: Any, **options: Any) -> str:
    """Jinja's own filter escapes for HTML, which no model expects."""
    return json.dumps(value, **{"ensure_ascii": False, **options})
