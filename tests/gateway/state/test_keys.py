from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.state.keys import Keys, Purpose, load_keys, mac


def test_keys_outlive_restarts_and_nobody_else_may_read_them(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    first = load_keys(folder).derive(Purpose.TAINT, "acme")
    assert load_keys(folder).derive(Purpose.TAINT, "acme") == first
    (file,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)


def test_workers_that_start_together_agree_on_one_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = {k.derive(Purpose.TAINT) for k in pool.map(load_keys, [tmp_path / "keys"] * 32)}
    assert len(found) == 1
    assert len(list((tmp_path / "keys").iterdir())) == 1


def test_each_purpose_and_tenant_has_a_key_of_its_own() -> None:
    keys = Keys(b"x" * 32)
    derived = [keys.derive(purpose, tenant) for purpose in Purpose for tenant in ("", "a", "b", "ab")]
    assert len(set(derived)) == len(derived)


def test_parts_cannot_run_into_each_other() -> None:
    assert mac(b"k", b"ab", b"c") != mac(b"k", b"a", b"bc") != mac(b"k", b"abc")


@pytest.mark.parametrize("held", [b"", b"short", b"x" * 33])
def test_a_damaged_secret_stops_the_start_and_is_not_replaced(tmp_path: Path, held: bytes) -> None:
    load_keys(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(held)
    with pytest.raises(ValueError, match="damaged"):
        load_keys(tmp_path)
    assert file.read_bytes() == held
