"""Compiling grammars beside the event loop: bounded in size, in work and in time, and each only once."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Collection

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from inference_protocol.errors import InvalidField
from inference_protocol.strings import is_plain_name
from runtime_server.structure.constraint import Constraint
from runtime_server.structure.grammar import Grammar

MAX_GRAMMAR_CHARS = 256 << 10
_MAX_CACHED = 64
_PATIENCE_S = 5.0
# Of llguidance's measures, a fifth to a half of its defaults: about 10 ms of work for one token at most, and a second
# for a grammar. What it says of its own state may hold the schema, and is not asked for.
_LIMITS = LLParserLimits(
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=100_000,
    step_max_items=50_000,
    max_lexer_states=50_000,
    max_grammar_size=200_000,
    verbose_errors=False,
)
_UNKNOWN_KEYWORDS = re.compile(r'Unimplemented keys: \[("[^\]]*")\]')
_REGEX_FAULT = re.compile(r"^error: ([a-z ,-]{1,120})", re.MULTILINE)
_FAULTS = (
    ("Resource ", "a `$ref` may only point into the schema itself"),
    ("Invalid type", "a `type` in it is none of JSON Schema's"),
    ("Unknown format", "a `format` in it is not one that can be enforced"),
    ("Unsatisfiable schema", "nothing satisfies it"),
)


class GrammarCompiler:
    """Compiles grammars for one tokenizer. It belongs to the event loop."""

    def __init__(
        self, tokenizer_json: Callable[[], str], end_tokens: Collection[int], *, patience_s: float = _PATIENCE_S
    ) -> None:
        """Set up; the tokenizer is read when the first grammar comes, which takes a third of a second.

        Args:
            tokenizer_json: Gives the content of `tokenizer.json`, which is not kept: it is megabytes.
            end_tokens: Ids that may end an answer once its form is complete.
            patience_s: Longest time that a request waits for its grammar.
        """
        self._tokenizer_json = tokenizer_json
        self._end_tokens = sorted(end_tokens)
        self._patience_s = patience_s
        self._tokenizer: LLTokenizer | None = None
        self._compiled: OrderedDict[str, LLMatcher] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()

    async def constraint(self, grammar: Grammar) -> Constraint:
        """Return a form at its beginning.

        Raises:
            InvalidField: The grammar is not one, is too large, or asks for something that cannot be enforced; `param`
                names the field that it was made from.
        """
        if len(grammar.text) > MAX_GRAMMAR_CHARS:
            raise InvalidField(f"`{grammar.field}` is larger than {MAX_GRAMMAR_CHARS} characters.", param=grammar.field)
        try:
            async with asyncio.timeout(self._patience_s):
                matcher = await self._matcher(grammar)
        except TimeoutError:
            raise InvalidField(
                f"`{grammar.field}` takes longer than {self._patience_s:g} s to compile.", param=grammar.field
            ) from None
        assert self._tokenizer is not None, "a matcher was made with it"
        return Constraint(matcher.deep_copy(), self._tokenizer.vocab_size)

    async def _matcher(self, grammar: Grammar) -> LLMatcher:
        found = self._compiled.get(grammar.text)
        if found is not None:
            self._compiled.move_to_end(grammar.text)
            return found
        async with self._one_at_a_time:
            matcher = await asyncio.to_thread(self._compile, grammar.text)
        if matcher.is_error() or matcher.is_stopped():
            raise InvalidField(f"`{grammar.field}` cannot be used: {_fault(matcher.get_error())}.", param=grammar.field)
        self._compiled[grammar.text] = matcher
        while len(self._compiled) > _MAX_CACHED:
            self._compiled.popitem(last=False)
        return matcher

    def _compile(self, text: str) -> LLMatcher:
        if self._tokenizer is None:
            self._tokenizer = LLTokenizer(self._tokenizer_json(), eos_token=self._end_tokens)
        matcher = LLMatcher(self._tokenizer, text, log_level=0, limits=_LIMITS)
        if not matcher.is_error():
            # A grammar that refers to nothing but itself is found out by its first step, which is also the slowest.
            trial = matcher.deep_copy()
            if not any(trial.compute_bitmask()) or trial.is_error():
                return trial
        return matcher


def _fault(message: str) -> str:
    """Say what is wrong without repeating what the caller wrote."""
    unknown = _UNKNOWN_KEYWORDS.search(message)
    if unknown is not None:
        names = [name for name in re.findall(r'"([^"]*)"', unknown[1]) if is_plain_name(name)]
        return f"the keyword {', '.join(f'`{name}`' for name in names)} cannot be enforced"
    regex = _REGEX_FAULT.search(message)
    if regex is not None:
        return f"its pattern is refused ({regex[1]})"
    return next((said for begin, said in _FAULTS if begin in message), "it cannot be compiled")
