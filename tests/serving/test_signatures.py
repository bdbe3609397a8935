from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from serving.signatures import Envelope, KeyUnusable, PrivateKey, PublicKey, _what_is_signed

STATEMENT = Envelope("application/vnd.test+json", b'{"a": 1}')


def test_only_the_keys_that_signed_are_told() -> None:
    ada, ben, eve = PrivateKey.make(), PrivateKey.make(), PrivateKey.make()

    signed = ben.sign(ada.sign(STATEMENT))

    assert signed.signed_by([ada.public, ben.public, eve.public]) == [ada.public, ben.public]


@pytest.mark.parametrize("change", [{"payload": b'{"a": 2}'}, {"kind": "application/vnd.other+json"}])
def test_a_signature_says_nothing_of_another_payload_or_kind(change: dict[str, str | bytes]) -> None:
    ada = PrivateKey.make()

    assert not replace(ada.sign(STATEMENT), **change).signed_by([ada.public])


def test_signing_twice_leaves_one_signature() -> None:
    ada = PrivateKey.make()

    assert len(ada.sign(ada.sign(STATEMENT)).signatures) == 1


def test_what_is_signed_is_as_dsse_lays_it_out() -> None:
    # The example of the DSSE protocol, v1.0.2.
    example = Envelope("http://example.com/HelloWorld", b"hello world")

    assert _what_is_signed(example) == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_a_key_survives_its_file_which_only_its_owner_may_read(tmp_path: Path) -> None:
    ada, path = PrivateKey.make(), tmp_path / "ada.key"

    ada.save(path)

    assert PrivateKey.load(path).public == ada.public
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        PrivateKey.make().save(path)


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("no key")

    with pytest.raises(KeyUnusable, match="PEM"):
        PrivateKey.load(tmp_path / "k")
    with pytest.raises(KeyUnusable, match="cannot be read"):
        PrivateKey.load(tmp_path / "none")
    with pytest.raises(KeyUnusable, match="32 bytes"):
        PublicKey.from_text("AAAA")
    ada = PrivateKey.make().public
    assert PublicKey.from_text(ada.text) == ada
