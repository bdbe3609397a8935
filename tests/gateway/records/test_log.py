import asyncio
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Literal

import pytest

from gateway.records.log import RecordLog
from gateway.records.reader import read_records
from inference_protocol.errors import RecordFailed
from inference_protocol.outcome import Outcome
from tests.support.waiting import until


def _log(directory: Path, durability: Literal["process", "disk"] = "process", max_bytes: int = 1 << 20) -> RecordLog:
    return RecordLog(directory, durability=durability, max_bytes=max_bytes, files=3)


def test_a_record_is_in_the_file_when_write_returns(tmp_path: Path) -> None:
    log = _log(tmp_path / "records")
    log.write({"kind": "decision", "request_id": "req-1"})
    assert list(read_records(tmp_path / "records")) == [{"kind": "decision", "request_id": "req-1"}]
    log.close()


def test_records_are_private(tmp_path: Path) -> None:
    _log(tmp_path / "records").close()
    [path] = (tmp_path / "records").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("durability", ["process", "disk"])
async def test_records_are_read_back_oldest_first_over_rotated_files(
    tmp_path: Path, durability: Literal["process", "disk"]
) -> None:
    log = _log(tmp_path, durability, max_bytes=100)  # two of these records to a file
    for number in range(8):
        await log.write_before_egress({"number": number, "filler": "x" * 20})
    log.close()
    assert [record["number"] for record in read_records(tmp_path)] == [2, 3, 4, 5, 6, 7]


def test_reading_passes_over_half_a_line_and_what_was_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_bytes(
        b'{"request_id":"req-1"}\n{"request_id":"req-2"}\n{"request_id":"req-1","to'
    )
    assert list(read_records(tmp_path, "req-1")) == [{"request_id": "req-1"}]
    assert list(read_records(tmp_path / "missing")) == []


async def test_a_flush_covers_the_record_before_write_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    log = _log(tmp_path, "disk")
    await log.write_before_egress({"request_id": "req-1"})
    assert sizes == [(tmp_path / "requests.jsonl").stat().st_size]
    log.close()


async def test_without_disk_durability_nothing_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: pytest.fail("flushed"))
    log = _log(tmp_path, "process")
    await log.write_before_egress({"request_id": "req-1"})
    log.close()


async def test_records_that_come_during_a_flush_share_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = threading.Event(), threading.Event()
    seen: list[int] = []

    def slow_disk(descriptor: int) -> None:
        seen.append(os.fstat(descriptor).st_size)
        started.set()
        assert go_on.wait(10)

    monkeypatch.setattr(os, "fdatasync", slow_disk)
    log = _log(tmp_path, "disk")
    first = asyncio.create_task(log.write_before_egress({"number": 0}))
    assert await asyncio.to_thread(started.wait, 10)
    others = [asyncio.create_task(log.write_before_egress({"number": n})) for n in range(1, 20)]
    for _ in range(3):
        await asyncio.sleep(0)
    others[0].cancel()
    go_on.set()
    await asyncio.wait_for(first, 10)
    results = await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), 10)
    assert [type(result) for result in results] == [asyncio.CancelledError] + [type(None)] * 18
    assert len(seen) == 2
    assert seen[1] == (tmp_path / "requests.jsonl").stat().st_size
    log.close()


async def test_a_disk_that_cannot_flush_fails_every_record_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    log = _log(tmp_path, "disk")
    results = await asyncio.gather(*(log.write_before_egress({"number": n}) for n in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [RecordFailed] * 3
    log.close()


async def test_nothing_that_waits_for_the_disk_happens_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()
    for module, name in ((os, "fdatasync"), (os, "fsync"), (os, "write"), (fcntl, "flock")):
        real = getattr(module, name)

        def noting(*args: Any, real: Any = real) -> Any:
            threads.add(threading.current_thread())
            return real(*args)

        monkeypatch.setattr(module, name, noting)
    log = _log(tmp_path, "disk", max_bytes=100)  # so that it rotates
    threads.clear()
    for number in range(8):
        await log.write_before_egress({"number": number, "filler": "x" * 20})
    assert {*os.listdir(tmp_path)} == {"requests.jsonl", "requests.1.jsonl", "requests.2.jsonl"}
    assert len(threads) == 1
    assert threading.current_thread() not in threads
    log.close()


async def test_what_nobody_waits_for_is_written_by_the_end_and_its_failure_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = _log(tmp_path, "disk")
    log.write({"number": 0})
    log.close()
    assert list(read_records(tmp_path)) == [{"number": 0}]

    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    log = _log(tmp_path, "disk")
    monkeypatch.setattr(os, "fdatasync", broken)
    log.write({"number": 1})
    await until(lambda: "Input/output error" in caplog.text)
    log.close()


def test_a_full_disk_is_a_record_failed_that_says_what_follows_and_no_path(tmp_path: Path) -> None:
    script = """
import resource, sys
from pathlib import Path
from gateway.records.log import RecordLog
from inference_protocol.errors import RecordFailed
log = RecordLog(Path(sys.argv[1]), durability="process", max_bytes=10**6, files=2)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
try:
    log.write({"request_id": "req-1"})
except RecordFailed as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "nothing may leave this machine" in done.stdout
    assert str(tmp_path) not in done.stdout
    assert list(read_records(tmp_path)) == []


def test_a_log_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "records").touch()
    with pytest.raises(OSError, match="records"):
        _log(tmp_path / "records")


def test_a_failed_record_counts_as_unavailable() -> None:
    assert Outcome.of(RecordFailed("x")) is Outcome.UNAVAILABLE
