"""The process of a detector is kept running, and what does not come up is tried again, less and less often."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest
import uvloop

from gateway.detectors.detector import DetectorFailed
from gateway.detectors.worker import Worker
from gateway.supervise import Patience
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("first", "how"),
    [
        ("time.sleep(3600)", "was not ready within 0.5 s"),
        ("sys.exit(3)", "before it was ready"),
        ("print('warming up', flush=True)", "before it was ready"),
        ("print('{}', flush=True)", "began by something else"),
    ],
)
async def test_a_process_that_does_not_come_up_is_started_again_with_longer_waits(
    first: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    patience = Patience(first_wait_s=0.01, longest_wait_s=0.02)
    program = (sys.executable, "-c", f"import sys, time\n{first}")
    started = Worker(program, {}, start_timeout_s=0.5 if "sleep" in first else 20.0, patience=patience)
    task = asyncio.create_task(started.run())
    await until(lambda: sum(how in message for message in caplog.messages) >= 3)
    with pytest.raises(DetectorFailed, match="not ready"):
        await started.ask({"texts": []}, 5.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    waits = [message.rpartition(" in ")[2] for message in caplog.messages]
    assert waits[:3] == ["0.01 s", "0.02 s", "0.02 s"]


async def test_a_program_that_is_not_there_is_a_failure_like_any_other() -> None:
    task = asyncio.create_task((gone := Worker(("/nowhere/at/all",), {}, start_timeout_s=1.0)).run())
    with pytest.raises(DetectorFailed):
        await gone.ask({"texts": []}, 5.0)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_process_is_kept_and_killed_in_the_loop_that_the_gateway_runs_on() -> None:
    answers = "for line in sys.stdin: print(json.dumps({'id': json.loads(line)['id']}), flush=True)"
    program = (sys.executable, "-c", f"import json, sys\nprint('{{\"ready\": true}}', flush=True)\n{answers}")

    async def asked_twice() -> None:
        worker = Worker(program, {}, start_timeout_s=20.0, patience=Patience(first_wait_s=0.01))
        task = asyncio.create_task(worker.run())
        for _ in range(2):
            await until(lambda: worker.pid is not None or task.done())
            assert worker.pid is not None, task.exception()
            assert "id" in await worker.ask({}, 5.0)
            os.killpg(worker.pid, signal.SIGKILL)
            await until(lambda: worker.pid is None)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    uvloop.run(asked_twice())
