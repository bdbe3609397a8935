"""A route that tells its template, which unlike the path has few values: the SERVER span and the metrics name it."""

from __future__ import annotations

from starlette.routing import Match, Route
from starlette.types import Scope


class NamedRoute(Route):
    """The framework's, which leaves itself in the scope."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Say whether a request is for this route, and what that adds to its scope."""
        match, found = super().matches(scope)
        return match, found if match is Match.NONE else {**found, "route": self}
