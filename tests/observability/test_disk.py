from __future__ import annotations

from pathlib import Path

import pytest

from observability.disk import write_whole


def test_a_file_is_replaced_whole_for_its_owner_alone_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    write_whole(path, b"a longer text than what comes")
    write_whole(path, b"short")

    assert path.read_bytes() == b"short"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.json"
    write_whole(path, b"before")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"after")

    assert path.read_bytes() == b"before"


def test_two_writers_with_a_place_of_their_own_each_leave_a_whole_file_that_others_may_read(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    for number in (1, 2):
        write_whole(path, b"part ", b"%d" % number, aside=tmp_path / f"{number}.part", mode=0o644, lasting=False)
    assert path.read_bytes() == b"part 2"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]
