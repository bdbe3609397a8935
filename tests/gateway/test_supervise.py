from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from gateway.child import Child, ChildSpec
from gateway.supervise import GAVE_UP, INTERRUPTED, Backoff, Patience, Supervisor

PROGRAM = Path(__file__).parent.parent / "support" / "supervised.py"
BOUND_S = 30.0

# Says its pid, and on SIGTERM finishes some work before it ends.
DRAINS = """
import os, signal, sys, time
def drain(*_):
    print("draining")
    time.sleep(0.3)
    print("drained")
    sys.exit(0)
signal.signal(signal.SIGTERM, drain)
print("pid", os.getpid())
while True:
    signal.pause()
"""
DEAF = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("pid", os.getpid())
while True:
    signal.pause()
"""


class Supervised:
    """A running supervisor, seen from outside."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def line(self, start: str) -> str:
        """Read on to a line that starts so, and return the rest of it."""
        assert self.process.stdout is not None
        async with asyncio.timeout(BOUND_S):
            while data := await self.process.stdout.readline():
                self.lines.append(data.decode().rstrip("\n"))
                if self.lines[-1].startswith(start):
                    return self.lines[-1].removeprefix(start)
        pytest.fail(f"no line {start!r} in {self.lines}")

    async def pids(self, count: int) -> dict[str, list[int]]:
        """Read on until so many processes have said their pid, and return them by the child's name."""
        found: dict[str, list[int]] = {}
        for _ in range(count):
            name, _, pid = (await self.line("")).partition(": pid ")
            found.setdefault(name, []).append(int(pid))
        return found

    async def exit_status(self) -> int:
        assert self.process.stdout is not None
        async with asyncio.timeout(BOUND_S):
            self.lines += (await self.process.stdout.read()).decode().splitlines()
            return await self.process.wait()


Supervise = Callable[..., Awaitable[Supervised]]


@pytest.fixture
async def supervise() -> AsyncIterator[Supervise]:
    started: list[Process] = []

    async def start(programs: dict[str, str], **patience: float) -> Supervised:
        argument = json.dumps([programs, {"first_wait_s": 0.05, **patience}])
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-u", str(PROGRAM), argument, stdout=PIPE, stderr=STDOUT, process_group=0
        )
        started.append(process)
        return Supervised(process)

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ended(pid: int) -> None:
    """Wait until a process that need not be ours has ended; a zombie has."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, gone.set)
    try:
        async with asyncio.timeout(BOUND_S):
            await gone.wait()
    finally:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_killed_child_comes_back_and_the_others_do_not_notice(supervise: Supervise) -> None:
    up = await supervise({"edge": DRAINS, "gateway": DRAINS})
    pids = await up.pids(2)

    os.kill(pids["edge"][0], signal.SIGKILL)

    assert await up.line("tidegate: ") == "edge was ended by signal 9 (Killed); it is started again in 0.05 s."
    assert (await up.pids(1))["edge"] != pids["edge"]
    assert is_running(pids["gateway"][0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_the_last_started_first_and_lets_each_finish(
    supervise: Supervise, number: signal.Signals
) -> None:
    up = await supervise({"edge": DRAINS, "cloud": DRAINS, "gateway": DRAINS})
    await up.pids(3)

    os.killpg(up.process.pid, number)  # as a terminal does

    assert await up.exit_status() == 0
    assert [line for line in up.lines if "drain" in line] == [
        *("gateway: draining", "gateway: drained"),
        *("cloud: draining", "cloud: drained"),
        *("edge: draining", "edge: drained"),
    ]


async def test_a_child_that_does_not_stop_in_time_is_killed_with_what_it_has_started(supervise: Supervise) -> None:
    starts_another = "import subprocess\nprint('pid', subprocess.Popen(['sleep', '600']).pid)"
    up = await supervise({"edge": DRAINS, "gateway": starts_another + DEAF}, drain_s=0.5)
    grandchild, gateway = (await up.pids(3))["gateway"]

    up.process.send_signal(signal.SIGINT)

    assert await up.line("tidegate: gateway ") == "did not end within 0.5 s and was killed."
    assert not is_running(gateway)
    await ended(grandchild)
    assert await up.exit_status() == 0
    assert "edge: drained" in up.lines


async def test_a_second_ctrl_c_kills_without_waiting(supervise: Supervise) -> None:
    up = await supervise({"edge": DEAF, "gateway": DEAF}, drain_s=600)
    pids = await up.pids(2)

    up.process.send_signal(signal.SIGINT)
    await up.line("tidegate: Stopping")
    up.process.send_signal(signal.SIGINT)

    assert await up.exit_status() == INTERRUPTED
    assert not any(is_running(pid) for [pid] in pids.values())


async def test_a_second_sigterm_does_not_cut_the_draining_short(supervise: Supervise) -> None:
    up = await supervise({"gateway": DRAINS})
    await up.pids(1)

    up.process.send_signal(signal.SIGTERM)
    await up.line("gateway: draining")
    up.process.send_signal(signal.SIGTERM)

    assert await up.exit_status() == 0
    assert "gateway: drained" in up.lines


async def test_children_do_not_outlive_a_supervisor_that_is_killed(supervise: Supervise) -> None:
    up = await supervise({"edge": DEAF, "gateway": DEAF})
    pids = await up.pids(2)

    up.process.kill()

    for [pid] in pids.values():
        await ended(pid)


async def test_a_child_that_cannot_start_ends_everything_with_its_reason(supervise: Supervise) -> None:
    refusal = "import sys\nsys.exit('policy.yaml:3: no such class')"
    up = await supervise({"edge": DRAINS, "gateway": refusal}, failed_starts=3)

    assert await up.exit_status() == GAVE_UP
    assert up.lines.count("gateway: policy.yaml:3: no such class") == 3
    assert [line for line in up.lines if line.startswith("tidegate: gateway")] == [
        "tidegate: gateway ended with status 1; it is started again in 0.05 s.",
        "tidegate: gateway ended with status 1; it is started again in 0.1 s.",
        "tidegate: gateway ended with status 1, 3 times, and was never ready. "
        "Its last line: policy.yaml:3: no such class",
    ]
    assert "edge: drained" in up.lines


async def test_a_program_that_is_not_there_is_named() -> None:
    said: list[tuple[str, str]] = []
    missing = ChildSpec("cloud", ("no-such-program",), dict(os.environ))
    supervisor = Supervisor([missing], lambda *line: said.append(line), patience=Patience(failed_starts=1))

    assert await supervisor.run() == GAVE_UP
    assert said[0] == ("cloud", "no-such-program: No such file or directory")


async def test_a_child_that_has_been_ready_is_never_given_up() -> None:
    async def ready() -> bool:
        return True

    said = await supervise_here(
        "raise SystemExit(3)", ready=ready, patience=Patience(first_wait_s=0.01, failed_starts=1)
    )

    assert said == [f"child ended with status 3; it is started again in {wait} s." for wait in (0.01, 0.02, 0.04)]


async def test_a_child_that_ran_long_enough_is_started_again_after_the_shortest_wait() -> None:
    minutes = itertools.count(step=60.0)

    said = await supervise_here(
        "raise SystemExit(3)", clock=lambda: next(minutes), patience=Patience(first_wait_s=0.01, failed_starts=1)
    )

    assert said == ["child ended with status 3; it is started again in 0.01 s."] * 3


async def test_a_line_without_an_end_is_passed_on_in_pieces() -> None:
    said: list[str] = []
    endless = ChildSpec("child", (sys.executable, "-c", "print('x' * 1_000_000, end='')"), dict(os.environ))

    await Child(endless, said.append).run(asyncio.Event(), drain_s=1)

    assert len(said) > 1
    assert "".join(said) == "x" * 1_000_000


async def test_a_process_that_has_left_the_group_with_the_output_does_not_hold_the_restart_up() -> None:
    said: list[str] = []
    leaves = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)"
    child = Child(ChildSpec("child", (sys.executable, "-c", leaves), dict(os.environ)), said.append)

    async with asyncio.timeout(BOUND_S):
        how = await child.run(asyncio.Event(), drain_s=1)

    os.kill(int(said[0]), signal.SIGKILL)
    assert how == "ended with status 0"


def test_waits_double_up_to_their_bound_and_begin_anew_after_a_steady_run() -> None:
    backoff = Backoff(Patience())

    assert [backoff.after(1.0) for _ in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert backoff.after(59.9) == 30.0
    assert [backoff.after(60.0), backoff.after(1.0)] == [0.5, 1.0]


async def supervise_here(
    code: str,
    *,
    patience: Patience,
    ready: Callable[[], Awaitable[bool]] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Supervise one program in this process, and return the first three things the supervisor said."""
    said: list[str] = []

    def say(name: str, line: str) -> None:
        said.append(line)
        if len(said) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    spec = ChildSpec("child", (sys.executable, "-c", code), dict(os.environ), ready)
    async with asyncio.timeout(BOUND_S):
        assert await Supervisor([spec], say, patience=patience, clock=clock).run() == 0
    return said[:3]
