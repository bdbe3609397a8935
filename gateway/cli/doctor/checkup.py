"""All looks, in the order in which a person would mend things."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gateway.cli.doctor import configuration, machine, programs, reach
from gateway.cli.doctor.finding import Finding, fail
from gateway.settings import Settings

Look = Callable[[Settings], Iterator[Finding]]

LOOKS: tuple[tuple[str, Look], ...] = (
    ("policy", configuration.policy),
    ("secrets", configuration.secrets),
    ("permissions", machine.permissions),
    ("disk", machine.disk),
    ("memory", machine.memory),
    ("clock", machine.clock),
    ("ports", programs.ports),
    ("models", programs.models),
    ("providers", programs.providers),
    ("targets", reach.targets),
)


def check_up(settings: Settings, begun: Callable[[str], None]) -> Iterator[Finding]:
    """Yield what every look finds. One that fails by itself is a finding, too, and hides none of the others.

    Args:
        settings: Of this installation.
        begun: Is told the name of each look as it begins.
    """
    for name, look in LOOKS:
        begun(name)
        try:
            yield from look(settings)
        except Exception as exc:  # it must say all the rest
            yield fail(name, f"this could not be looked at ({type(exc).__name__}: {exc})", "tell us, it is our fault")
