"""What telling a caller apart costs a request: its key, its token, its limits, and what web pages may ask.

Seconds are those of the processor, so that other programs on the machine do not count.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from bench.parts.report import Report
from gateway.access.account import Need
from gateway.access.tokens import Tokens
from gateway.access_settings import ApiKey, Auth
from gateway.identity import Identity
from gateway.quota import Quotas
from serving.web_guard import Pages, WebGuard
from tests.support.identity_provider import Provider

ROUNDS = 9
TIMES = 5_000
KEYS = 5_000
LIMITS = {"concurrent_requests": 10**6, "requests_per_minute": 10**9, "tokens_per_minute": 10**9}


def microseconds(work: Callable[[], object], times: int = TIMES) -> list[float]:
    """Processor time of one run, round by round."""
    found = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(times):
            work()
        found.append((time.process_time() - started) / times * 1e6)
    return found


def ran(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


def keys(report: Report) -> None:
    """One of many keys, and all of its limits with those of its tenant."""
    secret = secrets.token_urlsafe(36)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    held = tuple(ApiKey(id=f"key-{n}", secret_sha256=digest, tenant="t", **LIMITS) for n in range(KEYS))
    auth = Auth.model_validate({"keys": held, "tenants": {"t": {**LIMITS, "tokens_per_day": 10**12}}})
    identity, quotas = Identity(auth), Quotas(clock=time.monotonic)
    fields = {"authorization": f"Bearer key-{KEYS // 2}.{secret}"}
    rounds = report.raw["key_us"] = microseconds(lambda: ran(identity.identify(fields)))
    report.at_most("telling a caller by its key", statistics.median(rounds), 20.0, "µs")
    principal, need = ran(identity.identify(fields)), Need(300, 40)

    def limited() -> None:
        grant = quotas.grant(principal)
        with grant.place():
            grant.reserve(need)
            grant.headers()
        grant.settle(lambda: 100)

    rounds = report.raw["limits_us"] = microseconds(limited)
    report.at_most("all limits of a key and its tenant", statistics.median(rounds), 60.0, "µs")


def tokens(report: Report) -> None:
    """A token that was seen before, and ones that were not."""
    provider = Provider()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jwks.json"
        file.write_bytes(provider.jwks)
        told = {"issuer": provider.issuer, "audiences": ["tidegate"], "tenant": "t", "roles": ["inference"]}
        auth = Auth.model_validate({"issuers": {"corp": {**told, "jwks_file": file}}})
        checks = Tokens(auth, wall=time.time, clock=time.monotonic)
        seen, fresh = provider.token(), iter([provider.token(sub=f"u{n}") for n in range(ROUNDS * 100)])
        asyncio.run(checks.check(seen))
        again = report.raw["token_again_us"] = microseconds(lambda: ran(checks.check(seen)))
        first = report.raw["token_first_us"] = microseconds(lambda: ran(checks.check(next(fresh))), 100)
    report.at_most("a token that was checked before", statistics.median(again), 20.0, "µs")
    report.at_most("a token that is new (ES256)", statistics.median(first), 1000.0, "µs")


def pages(report: Report) -> None:
    """The check on whom a request is for, and where it is from."""

    async def app(*_: Any) -> None:
        return

    guard = WebGuard(app, Pages.of("127.0.0.1", [], []))
    fields = [(b"host", b"127.0.0.1:8080"), *((b"x-field-%d" % n, b"value") for n in range(18))]
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "headers": fields}
    nobody: Any = None
    rounds = report.raw["guard_us"] = microseconds(lambda: ran(guard(scope, nobody, nobody)))
    report.at_most("host and origin of a request", statistics.median(rounds), 10.0, "µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    report = Report("access")
    for measure in (keys, tokens, pages):
        measure(report)
    report.write(output)


if __name__ == "__main__":
    main()
