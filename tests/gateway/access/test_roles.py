"""Default deny: every route of both listeners, asked by every role and by nobody, one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from gateway.admin.app import AdminApp
from gateway.api.direct_routes import DirectRoutes
from gateway.app import App
from tests.gateway.conftest import HouseFactory
from tests.gateway.test_identity import bearer, key
from tests.support.raw_http import asked, status

ROLES = ("inference", "operator", "auditor", "other")
EVERYBODY = frozenset({*ROLES, "nobody", "stranger"})
CALLERS, LOOKERS, OPERATORS = frozenset({"inference"}), frozenset({"operator", "auditor"}), frozenset({"operator"})

# Who may ask for what. A route that is not here fails the test, whatever it lets in.
PUBLIC = {
    ("POST", "/v1/chat/completions"): CALLERS,
    ("POST", "/v1/completions"): CALLERS,
    ("POST", "/v1/embeddings"): CALLERS,
    ("POST", "/v1/route/explain"): CALLERS,
    ("GET", "/v1/models"): CALLERS,
    ("GET", "/v1/models/{model:path}"): CALLERS,
    ("GET", "/v1/requests/{request_id}"): CALLERS,
    ("DELETE", "/v1/requests/{request_id}"): CALLERS,
    ("GET", "/v1/requests/{request_id}/answer"): CALLERS,
    ("GET", "/v1/requests/{request_id}/stream"): CALLERS,
    ("GET", "/v2"): CALLERS,
    ("GET", "/v2/health/live"): EVERYBODY,
    ("GET", "/v2/health/ready"): EVERYBODY,
    ("GET", "/v2/models/{model}"): CALLERS,
    ("GET", "/v2/models/{model}/ready"): CALLERS,
    ("POST", "/v2/models/{model}/infer"): CALLERS,
    ("GET", "/v2/models/{model}/versions/{version}"): CALLERS,
    ("GET", "/v2/models/{model}/versions/{version}/ready"): CALLERS,
    ("POST", "/v2/models/{model}/versions/{version}/infer"): CALLERS,
    ("GET", "/livez"): EVERYBODY,
    ("GET", "/readyz"): EVERYBODY,
    ("GET", "/openapi.json"): EVERYBODY,
}
ADMIN = {
    ("GET", "/status"): LOOKERS,
    ("GET", "/metrics"): LOOKERS,
    ("GET", "/policy"): LOOKERS,
    ("GET", "/policy/versions"): LOOKERS,
    ("POST", "/policy/reload"): OPERATORS,
    ("POST", "/policy/activate"): OPERATORS,
    ("POST", "/policy/rollback"): OPERATORS,
    ("POST", "/policy/approve"): OPERATORS,
    ("POST", "/policy/canary"): OPERATORS,
    ("POST", "/policy/canary/promote"): OPERATORS,
    ("POST", "/policy/canary/end"): OPERATORS,
    ("POST", "/policy/shadow"): OPERATORS,
    ("POST", "/policy/shadow/end"): OPERATORS,
    ("GET", "/outbox"): LOOKERS,
    ("POST", "/outbox/flush"): OPERATORS,
    ("POST", "/outbox/drop"): OPERATORS,
}
KEYS = [key(f"{role}-key", roles=[role], may=["defer"]) for role in ROLES]
HEADERS: dict[str, dict[str, str]] = {
    **{role: bearer(f"{role}-key") for role in ROLES},
    "nobody": {},
    "stranger": bearer("no-such-key"),
}


def layers(app: Any) -> Iterator[Any]:
    """An application and what it hands requests on to."""
    while app is not None:
        yield app
        app = getattr(app, "_app", None)


def public_routes(app: App) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for layer in layers(app.asgi):
        if isinstance(layer, DirectRoutes):
            found |= {("POST", path) for path in layer._endpoints}
        if hasattr(layer, "router"):
            found |= {(method, route.path) for route in layer.router.routes for method in route.methods}
    return {(method, path) for method, path in found if method != "HEAD"}


def admin_routes(app: App) -> set[tuple[str, str]]:
    (admin,) = (layer for layer in layers(app.admin) if isinstance(layer, AdminApp))
    return set(admin._routes)


async def test_every_route_lets_in_whom_the_table_names_and_nobody_else(house: HouseFactory) -> None:
    async with house(auth={"keys": KEYS}) as h:
        app = h.gateway.app
        assert public_routes(app) == PUBLIC.keys()
        assert admin_routes(app) == ADMIN.keys()
        transport = httpx.ASGITransport(app.admin)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081") as admin:
            for client, table in ((h.gateway.client, PUBLIC), (admin, ADMIN)):
                for ((method, path), allowed), who in itertools.product(table.items(), HEADERS):
                    asked = path.replace("{request_id}", "req-000000000000000000000000")
                    found = (await client.request(method, asked, headers=HEADERS[who], json={})).status_code
                    if who in allowed:
                        assert found not in (401, 403), (method, path, who)
                    else:
                        assert found == (401 if who in ("nobody", "stranger") else 403), (method, path, who)


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/v1/none", "/docs", "/redoc", "/livez/", "/livez/../v1/models", "//livez", "/LIVEZ", "/metrics"],
)
async def test_whoever_is_not_let_in_learns_nothing_of_what_there_is(house: HouseFactory, path: str) -> None:
    async with house(auth={"keys": KEYS}) as h:
        for who, expected in (("nobody", 401), ("auditor", 403), ("inference", 404)):
            fields = [f"{name}: {value}" for name, value in HEADERS[who].items()]
            answer = await asked(h.gateway.url, "host: localhost", *fields, first=f"GET {path} HTTP/1.1")
            assert status(answer) == expected


async def test_without_keys_every_route_is_for_this_machine(house: HouseFactory) -> None:
    async with house() as h:
        for path in ("/v1/models", "/readyz"):
            assert (await h.gateway.client.get(path)).status_code == 200


async def test_only_callers_are_told_how_the_targets_stand(house: HouseFactory) -> None:
    async with house(auth={"keys": KEYS}) as h:
        told = {who: (await h.gateway.client.get("/readyz", headers=HEADERS[who])).json() for who in HEADERS}
        assert told["nobody"] == told["stranger"] == {"status": "ready"}
        assert told["auditor"]["targets"].keys() == {"edge", "cloud"}
