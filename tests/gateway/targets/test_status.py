"""What an operator sees of the targets and of this device's connection."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from gateway.targets.connectivity import ConnectivityWatch, Evidence
from gateway.targets.status import connectivity_status, targets_status
from routing_policies.snapshot import Connectivity
from tests.support.driven_dispatch import Drive
from tests.support.scripted_transport import answers, says_500, says_busy
from tests.support.virtual_time import in_virtual_time


def test_each_address_says_how_it_stands_and_when_it_will_be_asked_again() -> None:
    async def work(clock: Callable[[], float]) -> None:
        drive = Drive(clock, {"cloud": [says_500], "dc": [says_busy(retry_after="9")], "edge": [answers]})
        for _ in range(5):
            await drive.send()
        found = targets_status(drive.targets, clock())
        assert json.loads(json.dumps(found)) == found
        assert (found["cloud"]["health"], found["cloud"]["back_in_s"]) == ("failing", 1.0)
        assert [each["breaker"] for each in found["cloud"]["endpoints"]] == ["open"]
        assert (found["dc"]["health"], found["dc"]["back_in_s"]) == ("resting", 9.0)
        assert (found["edge"]["health"], found["edge"]["detail"], found["edge"]["in_flight"]) == ("up", None, 0)

    in_virtual_time(work)


class Watched:
    """A watch whose time a test moves."""

    def __init__(self, *, metered: bool = False) -> None:
        self.now = 0.0
        self.watch = ConnectivityWatch(lambda name: name != "edge", clock=lambda: self.now, metered=metered)

    def probes(self, evidence: Evidence, *, seconds: float, target: str = "cloud") -> Connectivity:
        for _ in range(int(seconds * 4) + 1):
            self.watch.probed(target, f"http://{target}", evidence)
            self.now += 0.25
        return self.watch.state


def test_a_device_is_cold_until_something_elsewhere_was_heard_of() -> None:
    watched = Watched()
    assert watched.watch.state is Connectivity.COLD
    assert watched.probes(Evidence.ANSWERED, seconds=5, target="edge") is Connectivity.COLD
    assert watched.probes(Evidence.ANSWERED, seconds=0) is Connectivity.ONLINE


def test_a_blip_changes_nothing_and_an_outage_does() -> None:
    watched = Watched()
    watched.probes(Evidence.ANSWERED, seconds=1)
    for _ in range(5):
        assert watched.probes(Evidence.FAILED, seconds=2) is Connectivity.ONLINE
        assert watched.probes(Evidence.ANSWERED, seconds=0.5) is Connectivity.ONLINE
    assert watched.probes(Evidence.FAILED, seconds=3.5) is Connectivity.OFFLINE
    assert watched.probes(Evidence.ANSWERED, seconds=1) is Connectivity.OFFLINE, "one lucky probe proves nothing"
    assert watched.probes(Evidence.ANSWERED, seconds=3) is Connectivity.ONLINE


def test_one_percent_of_lost_probes_is_no_reason_to_flap() -> None:
    watched = Watched()
    for number in range(2000):
        watched.watch.probed("cloud", "http://cloud", Evidence.FAILED if number % 100 == 99 else Evidence.ANSWERED)
        watched.now += 0.25
        assert watched.watch.state is Connectivity.ONLINE


def test_a_portal_that_answers_for_everybody_is_captive_and_a_part_that_fails_degraded() -> None:
    watched = Watched()
    watched.probes(Evidence.ANSWERED, seconds=1)
    watched.probes(Evidence.ANSWERED, seconds=1, target="dc")
    assert watched.probes(Evidence.CAPTIVE, seconds=4) is Connectivity.DEGRADED
    assert watched.probes(Evidence.CAPTIVE, seconds=4, target="dc") is Connectivity.CAPTIVE
    assert connectivity_status(watched.watch, watched.now)["state"] == "captive"


def test_a_metered_device_says_so_while_it_is_connected() -> None:
    watched = Watched(metered=True)
    assert watched.probes(Evidence.ANSWERED, seconds=1) is Connectivity.METERED
    assert watched.probes(Evidence.FAILED, seconds=4) is Connectivity.OFFLINE


def test_each_change_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    watched.probes(Evidence.ANSWERED, seconds=1)
    watched.probes(Evidence.FAILED, seconds=20)
    assert [record.getMessage() for record in caplog.records] == ["this device is offline, and was online"]
