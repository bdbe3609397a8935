import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from observability.rotating_file import RotatingFile


def _lines(folder: Path) -> list[bytes]:
    return [line for path in folder.glob("*.jsonl") for line in path.read_bytes().splitlines()]


def test_the_file_is_private_and_so_is_the_folder_that_it_makes(tmp_path: Path) -> None:
    path = tmp_path / "traces" / "edge.jsonl"
    RotatingFile(path, max_bytes=100, files=2).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_full_file_is_renamed_and_the_oldest_dropped(tmp_path: Path) -> None:
    file = RotatingFile(tmp_path / "edge.jsonl", max_bytes=20, files=3)
    for number in range(10):
        file.append(b"line %04d\n" % number)
    file.close()
    assert {p.name: p.read_bytes().split() for p in tmp_path.iterdir()} == {
        "edge.jsonl": [b"line", b"0008", b"line", b"0009"],
        "edge.1.jsonl": [b"line", b"0006", b"line", b"0007"],
        "edge.2.jsonl": [b"line", b"0004", b"line", b"0005"],
    }


def test_one_file_alone_starts_over_when_it_is_full(tmp_path: Path) -> None:
    file = RotatingFile(tmp_path / "edge.jsonl", max_bytes=10, files=1)
    file.append(b"first one\n")
    file.append(b"second\n")
    file.close()
    assert _lines(tmp_path) == [b"second"]
    assert [p.name for p in tmp_path.iterdir()] == ["edge.jsonl"]


def test_a_line_longer_than_a_file_may_be_is_kept_whole(tmp_path: Path) -> None:
    file = RotatingFile(tmp_path / "edge.jsonl", max_bytes=10, files=3)
    for line in (b"short\n", b"x" * 50 + b"\n", b"after\n"):
        file.append(line)
    file.close()
    assert sorted(_lines(tmp_path), key=len)[-1] == b"x" * 50
    assert len(_lines(tmp_path)) == 3


def test_a_restart_appends_and_sets_half_a_line_of_the_writer_before_apart(tmp_path: Path) -> None:
    path = tmp_path / "edge.jsonl"
    path.write_bytes(b'{"whole":1}\n{"half":')
    file = RotatingFile(path, max_bytes=1000, files=2)
    file.append(b'{"next":2}\n')
    file.append(b'{"next":3}\n')
    file.close()
    assert path.read_bytes().splitlines() == [b'{"whole":1}', b'{"half":', b'{"next":2}', b'{"next":3}']


def test_processes_that_share_a_path_lose_and_mix_no_line_while_it_rotates(tmp_path: Path) -> None:
    writer = """
import sys
from pathlib import Path
from observability.rotating_file import RotatingFile
file = RotatingFile(Path(sys.argv[1]), max_bytes=4096, files=1000)
print("ready", flush=True)
sys.stdin.readline()
for number in range(2000):
    file.append(b'{"writer":%d,"number":%d,"filler":"%s"}\\n' % (int(sys.argv[2]), number, b"x" * (number % 90)))
"""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", writer, str(tmp_path / "edge.jsonl"), str(who)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for who in range(3)
    ]
    for process in writers:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in writers:
        process.communicate(b"go\n", timeout=60)
        assert process.returncode == 0
    seen = sorted((line["writer"], line["number"]) for line in map(json.loads, _lines(tmp_path)))
    assert seen == [(who, number) for who in range(3) for number in range(2000)]
    assert len(list(tmp_path.iterdir())) > 20
    assert max(p.stat().st_size for p in tmp_path.iterdir()) <= 4096


def test_a_writer_whose_file_was_dropped_by_another_moves_to_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "edge.jsonl"
    idle = RotatingFile(path, max_bytes=16, files=1)
    busy = RotatingFile(path, max_bytes=16, files=1)
    busy.append(b"fills most\n")
    busy.append(b"newest\n")
    idle.append(b"late\n")  # would have had room in the file that is gone
    idle.close()
    busy.close()
    assert _lines(tmp_path) == [b"newest", b"late"]


def test_a_file_that_another_is_rotating_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "edge.jsonl"
    file = RotatingFile(path, max_bytes=10, files=5)
    file.append(b"first one\n")
    other = os.open(path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    writer = threading.Thread(target=file.append, args=(b"second\n",))
    writer.start()
    writer.join(0.3)
    assert writer.is_alive()
    path.rename(tmp_path / "edge.1.jsonl")
    os.close(other)
    writer.join(10)
    file.close()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {
        "edge.jsonl": b"second\n",
        "edge.1.jsonl": b"first one\n",
    }


def test_a_write_that_does_not_fit_raises_and_the_next_line_stands_apart(tmp_path: Path) -> None:
    # A limit on the file's size is the fault that a full disk is: the kernel takes part of the line.
    script = """
import resource, sys
from pathlib import Path
from observability.rotating_file import RotatingFile
file = RotatingFile(Path(sys.argv[1]), max_bytes=10**6, files=2)
file.append(b"first\\n")
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
for attempt in range(2):
    try:
        file.append(b"second line\\n")
    except OSError as error:
        print("raised")
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
file.append(b"third\\n")
"""
    path = tmp_path / "edge.jsonl"
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["raised", "raised"]
    assert path.read_bytes().splitlines() == [b"first", b"seco", b"third"]


def test_a_folder_that_cannot_be_made_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        RotatingFile(tmp_path / "file" / "edge.jsonl", max_bytes=10, files=1)


def test_a_new_file_that_cannot_be_opened_fails_the_append_and_no_stranger_gets_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RotatingFile(tmp_path / "records" / "r.jsonl", max_bytes=10, files=2)
    file.append(b"first\n")
    real_open = os.open

    def no_more_files(*arguments: object, **named: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", no_more_files)
    for _ in range(2):
        with pytest.raises(OSError, match="Too many"):
            file.append(b"second\n")
    monkeypatch.setattr(os, "open", real_open)
    ours, theirs = socket.socketpair()
    file.append(b"second\n")
    file.append(b"third\n")
    file.close()
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        theirs.recv(100)
    ours.close()
    theirs.close()
    assert sorted(_lines(tmp_path / "records")) == [b"second", b"third"]


def test_a_folder_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    file = RotatingFile(tmp_path / "records" / "r.jsonl", max_bytes=1000, files=2)
    file.append(b"first\n")
    shutil.rmtree(tmp_path / "records")
    file.append(b"second\n")
    file.close()
    assert _lines(tmp_path / "records") == [b"second"]
    assert (tmp_path / "records").stat().st_mode & 0o777 == 0o700
