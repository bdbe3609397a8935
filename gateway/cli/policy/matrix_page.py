"""The matrix as one HTML page that loads nothing: for a screen, light or dark, and for paper."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby

from routing_policies.lab.matrix import Answer, Cell, Row
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.signals.label import DataClass

# A sign beside the colour, for those who cannot tell colours apart and for grey paper.
_SIGNS = {Answer.YES: "✓", Answer.DEPENDS: "◐", Answer.NO: "✕"}
_WORDS = {Answer.YES: "may answer", Answer.DEPENDS: "depends on the request", Answer.NO: "never"}

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d9dee6; --paper: #ffffff; --band: #f5f7fa;
  --yes: #17693a; --yes-bg: #e6f4ea; --depends: #7a5200; --depends-bg: #fdf3d8; --no: #a02020; --no-bg: #fbe9e9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b6; --line: #313a47; --paper: #12161c;
  --band: #1a2028; --yes: #7fd39b; --yes-bg: #16301f; --depends: #ecc565; --depends-bg: #352a10; --no: #f19a9a;
  --no-bg: #391a1c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2.5rem 1.5rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2.5rem 0 .5rem; }
p { margin: .25rem 0; max-width: 44rem; } .soft { color: var(--soft); }
code { font: .85em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
ul.key { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; list-style: none; margin: 1.25rem 0; padding: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .55rem .75rem; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--line); font-size: .9rem; }
thead small { display: block; color: var(--soft); font-weight: 400; }
tbody th[scope=rowgroup] { width: 8rem; background: var(--band); font-size: 1rem; }
tbody th[scope=row] { width: 7rem; font-weight: 500; }
tbody + tbody tr:first-child > * { border-top: 2px solid var(--line); }
td.yes { background: var(--yes-bg); } td.depends { background: var(--depends-bg); } td.no { background: var(--no-bg); }
.mark { font-weight: 600; white-space: nowrap; }
.yes .mark, .mark.yes { color: var(--yes); } .depends .mark, .mark.depends { color: var(--depends); }
.no .mark, .mark.no { color: var(--no); }
.why { display: block; font-size: .85rem; color: var(--soft); }
a { color: inherit; } :target { outline: 2px solid var(--depends); outline-offset: 2px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .5rem 1.25rem; } dd { margin: 0; }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } tbody { break-inside: avoid; }
  td, th { print-color-adjust: exact; -webkit-print-color-adjust: exact; } .scroll { overflow: visible; } }
"""


def page_of(loaded: LoadedPolicy, rows: list[Row]) -> str:
    """Return the page."""
    return "\n".join(_page(loaded, rows)) + "\n"


def _page(loaded: LoadedPolicy, rows: list[Row]) -> Iterator[str]:
    name = escape(loaded.policy.name)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{name}: which data may go where</title>\n<style>{_STYLE}</style>\n</head>\n<body>"
    yield f'<h1>Which data may go where</h1>\n<p class="soft">Policy <b>{name}</b>, version '
    yield f"<code>{loaded.digest[:12]}</code></p>"
    yield '<ul class="key">'
    for answer in Answer:
        yield f'<li><span class="mark {answer}">{_SIGNS[answer]} {answer}</span> {_WORDS[answer]}</li>'
    yield "</ul>"
    yield '<div class="scroll"><table>\n<thead><tr><th scope="col">Class</th><th scope="col">Tag</th>'
    for target, promise in loaded.policy.targets.items():
        where = "on this device" if promise.on_device else promise.region or "elsewhere"
        about = escape(f"{promise.kind}, {where}")
        yield f'<th scope="col">{escape(target)}<small>{about}</small></th>'
    yield "</tr></thead>"
    for level, group in groupby(rows, key=lambda row: row.level):
        yield from _of_class(level, list(group), _rule_ids(loaded))
    yield "</table></div>"
    yield from _rules(loaded)
    yield '<p class="soft">A request takes the highest class, and every tag, that anything about it gives it. '
    yield "With several tags, a target must accept each.</p>\n</body>\n</html>"


def _of_class(level: DataClass, rows: list[Row], known: frozenset[str]) -> Iterator[str]:
    yield "<tbody>"
    for index, row in enumerate(rows):
        head = f'<th scope="rowgroup" rowspan="{len(rows)}">{level.word}</th>' if not index else ""
        cells = "".join(_cell(cell, known) for cell in row.cells.values())
        yield f'<tr>{head}<th scope="row">{escape(row.tag or "none")}</th>{cells}</tr>'
    yield "</tbody>"


def _cell(cell: Cell, known: frozenset[str]) -> str:
    why = escape(cell.reason)
    for rule in cell.rules:
        if rule in known:
            why = why.replace(escape(rule), f'<a href="#{escape(rule)}">{escape(rule)}</a>', 1)
    return (
        f'<td class="{cell.answer}"><span class="mark">{_SIGNS[cell.answer]} {cell.answer}</span>'
        f'<span class="why">{why}</span></td>'
    )


def _rule_ids(loaded: LoadedPolicy) -> frozenset[str]:
    return frozenset(rule.id for rule in loaded.constraints)


def _rules(loaded: LoadedPolicy) -> Iterator[str]:
    if not loaded.constraints:
        return
    yield "<h2>The rules</h2>\n<dl>"
    for rule in loaded.constraints:
        when = "at any time" if rule.when.source == "true" else f"where <code>{escape(rule.when.source)}</code>"
        if rule.require is None:
            effect = f"never to {escape(', '.join(sorted(rule.denied)))}"
        else:
            effect = f"only where <code>{escape(rule.require.source)}</code>"
        yield f'<dt id="{escape(rule.id)}"><b>{escape(rule.id)}</b></dt><dd>{when}: {effect}</dd>'
    yield "</dl>"
