"""`docs/telemetry.md`, made of the code: `python -m gateway.metrics.page` prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

from gateway.metrics import instruments, vocabulary
from gateway.settings_table import setting_rows
from inference_protocol.errors import error_classes
from inference_protocol.outcome import Outcome
from observability.delivery import OF_DELIVERY
from observability.meters import Instrument, InstrumentKind
from observability.prometheus import family_name

_HEAD = """\
# Telemetry

Every metric, attribute, header, error code and setting, as the code has them. `python -m gateway.metrics.page` makes
this page, and a test compares it.

Metrics are read as Prometheus's text at `/metrics` on the admin listener, by whoever has the role `auditor` or
`operator`. Where `telemetry.otlp_endpoint` names a collector, it is sent the same every 10 seconds, with traces as
examples of readings, beside the traces. No metric, attribute or header holds any content of a request. An attribute
without a value is left out.

What the collector has not taken yet waits in `spool/` of the state folder, up to `telemetry.spool_bytes` for each
program, and goes there once it is back, the oldest first, also after a restart. Of metrics the last sums wait alone,
which tell all that those before them did. What is answered with a redirection, a page, or the status 401, 403, 404,
407, 408, 429, 502, 503 or 504 is sent again, after a second and then up to a minute; what is refused otherwise is
dropped and counted. A collector that is down, hangs or lies costs a request nothing.

With `telemetry.log_format: json` each event of a program's log is one line of JSON on standard error: `time`, `level`,
`service`, `logger`, `message`, and `trace_id` and `span_id` where it is about a request. Of what nobody caught it says
`error_type` and `places`, and not the exception's message, which may quote a prompt; nor does a log of text.

What answers have cost is counted, too. Records know it for each request, and this command sums them up:

    tidegate report --since 7d --by tenant,model,target

Requests, tokens, money and energy for each million tokens and each answer inside its budget, the bytes that stayed
here, and what the same answers would have cost from the cloud (`--cloud` names which; `--json` is for programs). Money
is by the prices that the policy of the time declared, for every attempt. Joules are an estimate: declared watts times
the time that attempts took.
"""


def page() -> str:
    """Return the page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    older, newer = instruments.client_instruments("semconv-1.41"), instruments.client_instruments("genai-0.1")
    yield _HEAD
    yield from _instruments("Requests and attempts", (*instruments.OF_REQUESTS, *newer.all))
    yield "With `telemetry.genai_conventions: semconv-1.41` attempts are measured under these names instead:\n"
    yield from _table(*_instrument_rows(older.all))
    yield from _instruments("State, as it is when somebody asks", instruments.OF_STATE)
    yield from _instruments("On the way to a collector, where there is one", OF_DELIVERY)
    yield "## Buckets\n"
    histograms = [each for each in (*instruments.OF_REQUESTS, *newer.all, *older.all) if each.bounds]
    yield from _table(
        ("metric", "upper bounds"),
        *((_code(each.name), ", ".join(f"{bound:g}" for bound in each.bounds)) for each in histograms),
    )
    yield "## Attributes of spans and metrics\n"
    yield from _words(("attribute", "what it says"), vocabulary.ATTRIBUTES)
    yield "## Outcomes\n"
    yield "The words of `tidegate.outcome`: " + ", ".join(_code(each.value) for each in Outcome) + ".\n"
    yield "## Headers that a caller may send\n"
    yield from _words(("header", "what it does"), vocabulary.REQUEST_HEADERS)
    yield "## Headers of answers\n"
    yield from _words(("header", "what it says"), vocabulary.ANSWER_HEADERS)
    yield "## Headers to runtimes of ours\n"
    yield from _words(("header", "what it does"), vocabulary.RUNTIME_HEADERS)
    yield "## Error codes\n"
    rows = sorted({(each.code, str(each.http_status), "yes" if each.retryable else "no") for each in error_classes()})
    yield from _table(("code", "status", "worth trying again"), *((_code(code), *rest) for code, *rest in rows))
    yield "## Settings\n"
    yield "What each does: [settings.md](settings.md). `NAME` is a name that the file gives, `[]` an entry of a list.\n"
    settings = sorted(setting_rows())
    yield from _table(("setting", "kind", "default"), *((_code(name), *rest) for name, *rest in settings))


def _instruments(title: str, found: Iterable[Instrument]) -> Iterator[str]:
    yield f"## {title}\n"
    yield from _table(*_instrument_rows(found))


def _instrument_rows(found: Iterable[Instrument]) -> Iterator[tuple[str, ...]]:
    yield ("metric", "in Prometheus", "kind, unit", "what it is", "attributes")
    for each in found:
        suffix = "_total" if each.kind is InstrumentKind.COUNTER else ""
        attributes = ", ".join(map(_code, each.attributes))
        yield (_code(each.name), _code(family_name(each) + suffix), f"{each.kind}, {each.unit}", each.help, attributes)


def _words(heads: tuple[str, str], words: Mapping[str, str]) -> Iterator[str]:
    yield from _table(heads, *((_code(word), text) for word, text in words.items()))


def _table(heads: tuple[str, ...], *rows: tuple[str, ...]) -> Iterator[str]:
    for cells in (heads, ("---",) * len(heads), *rows):
        yield f"| {' | '.join(cells)} |"
    yield ""


def _code(text: str) -> str:
    return f"`{text}`"


if __name__ == "__main__":
    sys.stdout.write(page())
