"""How large a request is, in tokens (an interval, never characters divided by four), bytes and parts.

Tokens are those of the prompt that a chat template renders: what messages say and carry, the tools offered, a
completion's prompt, an embedding's input. Other fields, known or not, are no part of it.

The bounds are safe and cost no encoding. A tokenizer whose vocabulary holds every byte, as all current ones do, needs
at most one token for a byte of UTF-8, and its longest token is at most `LONGEST_TOKEN_BYTES`. What is likely between
them is judged by the tokenizer's own medians, script by script, learned once from sample texts. Counting exactly is
for requests whose bounds lie on both sides of a threshold.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Protocol

from inference_protocol.request import InferenceRequest, Task
from inference_protocol.text_parts import TextPart, Uninspectable, UninspectableCause
from routing_policies.signals.calibration_samples import SAMPLES, Script

LONGEST_TOKEN_BYTES = 128  # of GPT-2's and Llama 3's vocabularies; most stop well before
_SAID = re.compile(r"messages\[\d+\]\.content(?:\[\d+\]\.text)?|(?:prompt|input|suffix)(?:\[\d+\])?")
_TOOLS = ("tools", "functions")
_FIRST_BYTES: Mapping[Script, Iterable[int]] = {
    Script.ASCII: range(0x80),
    Script.LATIN: (*range(0xC2, 0xCE), 0xE2),
    Script.GREEK_CYRILLIC: range(0xCE, 0xD6),
    Script.HEBREW_ARABIC: range(0xD6, 0xE0),
    Script.INDIC_THAI: (0xE0, 0xE1),
    Script.HAN_KANA: (*range(0xE3, 0xEA), 0xEF),
    Script.HANGUL: range(0xEA, 0xEE),
    Script.OTHER: (0xEE, *range(0xF0, 0xF5)),
}
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
_MODALITY = {
    UninspectableCause.IMAGE: "image",
    UninspectableCause.AUDIO: "audio",
    UninspectableCause.BLOB: "blob",
    UninspectableCause.UNDECODABLE: "blob",
}


class TokenCounter(Protocol):
    """Counts tokens exactly, as one tokenizer does."""

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, without special tokens around it."""
        ...


@dataclass(frozen=True, slots=True)
class TokenInterval:
    """Input tokens: a safe lower bound, the likely number, a safe upper bound. Equal when counted exactly."""

    least: int
    likely: int
    most: int

    def __add__(self, other: TokenInterval) -> TokenInterval:
        return TokenInterval(self.least + other.least, self.likely + other.likely, self.most + other.most)

    def __mul__(self, times: int) -> TokenInterval:
        return TokenInterval(self.least * times, self.likely * times, self.most * times)


@dataclass(frozen=True, slots=True)
class Size:
    """The measured size.

    Attributes:
        tokens: Input tokens by the reference tokenizer.
        body_bytes: Length of the body.
        parts: Modality (`text`, `image`, `audio`, `blob`) to number of parts.
    """

    tokens: TokenInterval
    body_bytes: int
    parts: Mapping[str, int] = field(default_factory=dict)


# What a template puts around the text. Likely: ChatML, which the default model speaks. At most: the longest roles,
# default system prompts and preambles to tools of current models.
_AROUND_MESSAGE = TokenInterval(0, 5, 16)
_AROUND_PROMPT = TokenInterval(0, 8, 256)
_IMAGE = TokenInterval(0, 1000, 16_384)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many tokens a character usually takes, by script.

    Attributes:
        tokens_per_char: In text where scripts mix, each character counts by its own.
    """

    tokens_per_char: Mapping[Script, float]

    @classmethod
    def of(cls, counter: TokenCounter) -> Calibration:
        """Learn from a tokenizer, as the median over sample texts.

        A sample holds characters of other scripts too: what those are known to take is taken off first.
        """
        found: dict[Script, float] = {}
        for script in Script:
            rates = []
            for text in SAMPLES[script]:
                chars = characters(text)
                beside = sum(rate * chars.get(known, 0) for known, rate in found.items())
                rates.append(max(counter.count(text) - beside, 0.0) / chars[script])
            found[script] = median(rates)
        return cls(found)

    @classmethod
    def unknown(cls) -> Calibration:
        """Where there is no tokenizer: what small vocabularies made mostly from English take."""
        return cls(
            {
                Script.ASCII: 0.3,
                Script.LATIN: 1.5,
                Script.GREEK_CYRILLIC: 1.0,
                Script.HEBREW_ARABIC: 1.3,
                Script.INDIC_THAI: 2.0,
                Script.HAN_KANA: 1.7,
                Script.HANGUL: 2.3,
                Script.OTHER: 3.0,
            }
        )

    def likely_tokens(self, text: str) -> float:
        """Estimate the tokens of a text."""
        return sum(self.tokens_per_char[script] * count for script, count in characters(text).items())


def characters(text: str) -> Mapping[Script, int]:
    """Count the characters of a text by script."""
    if text.isascii():
        return {Script.ASCII: len(text)}
    # Without continuation bytes, UTF-8 is one byte a character.
    firsts = Counter(text.encode("utf-8", "replace").translate(None, _CONTINUATION_BYTES))
    return {script: sum(firsts[byte] for byte in first) for script, first in _FIRST_BYTES.items()}


def measure(request: InferenceRequest, parts: Sequence[TextPart], calibration: Calibration) -> Size:
    """Measure a request without encoding it.

    Args:
        request: The request.
        parts: Its `text_parts()`.
        calibration: Of the reference tokenizer.
    """
    prompt = _Prompt.of(request, parts)
    least = -(-sum(_utf8_length(text.strip()) for text in prompt.said) // LONGEST_TOKEN_BYTES)  # templates may strip
    most = sum(map(_utf8_length, prompt.said))
    # What is not said is serialised anew by templates, escaped once more or indented, or left out.
    most += 2 * sum(map(_utf8_length, prompt.carried))
    most += len(json.dumps(prompt.tools, indent=4)) if prompt.tools else 0
    likely = round(sum(map(calibration.likely_tokens, prompt.texts())))
    tokens = TokenInterval(least, min(max(likely, least), most), most) + _around(request, prompt.modalities)
    return Size(tokens, len(request.raw), prompt.modalities)


def exact(request: InferenceRequest, parts: Sequence[TextPart], size: Size, counter: TokenCounter) -> Size:
    """Return the size with the tokens of its text counted, and those around it at their likely number.

    Args:
        request: The request.
        parts: Its `text_parts()`.
        size: As `measure` found it.
        counter: Of the reference tokenizer.
    """
    prompt = _Prompt.of(request, parts)
    count = sum(map(counter.count, prompt.texts())) + _around(request, prompt.modalities).likely
    return replace(size, tokens=TokenInterval(count, count, count))


@dataclass(frozen=True, slots=True)
class _Prompt:
    """What of a request a template renders.

    Attributes:
        said: Contents of messages, prompts, inputs.
        carried: Other strings of messages, such as the arguments of tool calls.
        tools: The tools offered.
        modalities: How many parts there are of each.
    """

    said: Sequence[str]
    carried: Sequence[str]
    tools: Sequence[Any]
    modalities: Counter[str]

    @classmethod
    def of(cls, request: InferenceRequest, parts: Sequence[TextPart]) -> _Prompt:
        said: list[str] = []
        carried: list[str] = []
        modalities: Counter[str] = Counter()
        beneath = "\0"
        for part in parts:
            if isinstance(part.text, Uninspectable):
                modalities[_MODALITY.get(part.text.cause, "blob")] += 1
                beneath = f"{part.path}."
            elif part.path.startswith(beneath):
                continue  # it describes what is no text: no template renders it
            elif _SAID.fullmatch(part.path):
                said.append(part.text)
                modalities["text"] += 1
            elif part.path.startswith("messages["):
                carried.append(part.text)
        tools = [request.tree[key] for key in _TOOLS if request.tree.get(key)]
        return cls(said, carried, tools, modalities)

    def texts(self) -> Iterator[str]:
        """Yield all that becomes tokens, as it is likely to be written."""
        yield from self.said
        yield from self.carried
        if self.tools:
            # Half of a surrogate pair, which no tokenizer takes, may stand in what is serialised here.
            yield json.dumps(self.tools, ensure_ascii=False).encode("utf-8", "replace").decode()


def _around(request: InferenceRequest, modalities: Counter[str]) -> TokenInterval:
    """Return the tokens that are not text: the template's own, and those of media."""
    tokens = _IMAGE * modalities["image"]
    if modalities["audio"] or modalities["blob"]:
        tokens += TokenInterval(0, 0, len(request.raw))
    if request.task is Task.CHAT:
        tokens += _AROUND_MESSAGE * len(request.tree["messages"]) + _AROUND_PROMPT
    return tokens


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
