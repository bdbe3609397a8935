"""`tidegate report`: what answers have cost, in money, energy and bytes that left, and what all cloud would have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from gateway.accounts.account import Account, Ended
from gateway.accounts.past_requests import KnownPolicies, PastRequests
from gateway.cli.options import JsonOption, SettingsOption, fail, settings_or_fail
from gateway.policies.store import VersionStore
from gateway.records.reader import read_records

_WORDS = ("tenant", "model", "target", "class")
Column = Callable[[Account], str]
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def report(
    since: Annotated[str, typer.Option("--since", help="How far back: 30m, 12h, 7d, 2w.")] = "7d",
    by: Annotated[str, typer.Option("--by", help=f"What to tell apart, with commas: {', '.join(_WORDS)}.")] = "target",
    cloud: Annotated[
        str | None, typer.Option("--cloud", help="The target to compare with; else the first with a price.")
    ] = None,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Say what answers have cost, for each million tokens and each one inside its budget, and what stayed here."""
    words = _words(by)
    start = datetime.now(UTC) - _span(since)
    folder = settings_or_fail(settings_file).folder
    policies = KnownPolicies(VersionStore(folder.policies))
    since_utc = start.isoformat(timespec="milliseconds")
    requests = PastRequests(read_records(folder.records), policies, since_utc)
    with Console(stderr=True).status("Reading the records"):
        accounts, total = _accounts(requests, words, cloud)
    if as_json:
        groups = [{**dict(zip(words, of, strict=True)), **_as_json(accounts[of])} for of in sorted(accounts)]
        unreadable = {"unreadable": requests.unreadable}
        document = {"since": since_utc, "groups": groups, "total": _as_json(total), **unreadable}
        typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        return
    if not total.requests:
        unread = f" {requests.unreadable} were recorded by another version of Tidegate." if requests.unreadable else ""
        fail(f"No request has ended in the last {since} under {folder.records}.{unread}")
    console = Console(highlight=False)
    for columns in _tables():
        console.print(_table(columns, words, accounts, total))
        console.print()
    for note in _notes(total, requests.unreadable):
        console.print(note, style="dim")


def _words(by: str) -> tuple[str, ...]:
    words = tuple(filter(None, (word.strip() for word in by.split(","))))
    unknown = sorted(set(words) - set(_WORDS))
    if unknown:
        fail(f"--by: there is no {', '.join(unknown)}; there are {', '.join(_WORDS)}.")
    return words


def _span(text: str) -> timedelta:
    found = re.fullmatch(r"([1-9][0-9]{0,3})([mhdw])", text)
    if found is None:
        fail(f"--since: {text!r} must be a number and one of m, h, d, w, as in 7d.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _accounts(
    requests: Iterable[Ended], words: tuple[str, ...], cloud: str | None
) -> tuple[dict[tuple[str, ...], Account], Account]:
    """Each group's account, and that of all of them."""
    accounts: dict[tuple[str, ...], Account] = {}
    total = Account()
    for ended in requests:
        of = tuple(ended.words[word] for word in words)
        accounts.setdefault(of, Account()).add(ended, cloud)
        total.add(ended, cloud)
    return accounts, total


def _as_json(account: Account) -> dict[str, Any]:
    return {
        "requests": account.requests,
        "inside_budget": account.good,
        "tokens": {
            "input": account.input_tokens,
            "cached": account.cached_tokens,
            "output": account.output_tokens,
        },
        "money": account.money,
        "money_per_million_tokens": account.money_per_million_tokens(),
        "money_per_request_inside_budget": account.money_per_good(),
        "attempts_without_a_price": account.unpriced,
        "joules_estimated": account.joules,
        "joules_per_million_tokens_estimated": account.joules_per_million_tokens(),
        "joules_per_request_inside_budget_estimated": account.joules_per_good(),
        "attempts_without_watts": account.unmetered,
        "bytes": {"kept_here": account.bytes_kept, "sent_elsewhere": account.bytes_out},
        "all_cloud": {"money": account.all_cloud, "bytes_sent_elsewhere": account.bytes_all_cloud},
    }


def _table(
    columns: Mapping[str, Column], words: tuple[str, ...], accounts: Mapping[tuple[str, ...], Account], total: Account
) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for word in words:
        table.add_column(word, overflow="fold")
    for head in columns:
        table.add_column(head, justify="right", no_wrap=True)
    for of in sorted(accounts):
        table.add_row(*of, *(column(accounts[of]) for column in columns.values()))
    if words:
        table.add_row("all", *("",) * (len(words) - 1), *(column(total) for column in columns.values()), style="bold")
    return table


def _tables() -> tuple[Mapping[str, Column], ...]:
    """What each table shows; three, so that each fits a terminal."""
    return (
        {
            "requests": lambda account: str(account.requests),
            "in budget": lambda account: str(account.good),
            "tokens in": lambda account: f"{account.input_tokens:,}",
            "cached": lambda account: f"{account.cached_tokens:,}",
            "out": lambda account: f"{account.output_tokens:,}",
        },
        {
            "money": lambda account: _money(account.money),
            "all cloud": lambda account: _money(account.all_cloud),
            "per M tokens": lambda account: _money(account.money_per_million_tokens()),
            "per good answer": lambda account: _money(account.money_per_good()),
        },
        {
            "J~": lambda account: _joules(account, account.joules),
            "J~ per M tokens": lambda account: _joules(account, account.joules_per_million_tokens()),
            "J~ per good answer": lambda account: _joules(account, account.joules_per_good()),
            "kept here": lambda account: _bytes(account.bytes_kept),
            "sent": lambda account: _bytes(account.bytes_out),
            "all cloud": lambda account: _bytes(account.bytes_all_cloud),
        },
    )


def _notes(total: Account, unreadable: int) -> list[str]:
    notes = [
        "A good answer is one inside its budget. J~ is an estimate: declared watts times the time that attempts took."
    ]
    if total.unmetered:
        notes.append(f"{total.unmetered} attempts are not in it: the policy declares no `power` for their target.")
    if total.unpriced:
        notes.append(f"{total.unpriced} attempts are not in the money: no `price` is known for their target.")
    if unreadable:
        notes.append(f"{unreadable} requests are not in it at all: another version of Tidegate recorded them.")
    return notes


def _money(amounts: Mapping[str, float]) -> str:
    return " + ".join(f"{amount:.4g} {currency}" for currency, amount in sorted(amounts.items())) or "-"


def _joules(account: Account, amount: float | None) -> str:
    return "-" if amount is None or not account.joules else f"{amount:.3g}"


def _bytes(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
