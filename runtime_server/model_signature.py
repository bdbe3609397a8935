"""Who vouches for a model: signatures over its manifest, which holds the sha256 of every file.

`signatures.json` beside the manifest may hold several: the publisher's, and that of the machine that took the model in.
A key is trusted when it stands, in base64, in the folder of trusted keys as `<name>.pub`, or in the settings.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from observability.disk import write_whole
from runtime_server.model_manifest import SIGNATURES_NAME, manifest_bytes
from runtime_server.trusted_keys import TrustedKeys
from serving.signatures import Envelope, KeyUnusable, PrivateKey, PublicKey, Signature
from serving.start import StartRefused

KEY_SUFFIX = ".pub"
_KIND = "application/vnd.tidegate.model-manifest+json"


class Untrusted(StartRefused):
    """Nobody who is trusted signed this model. The message says what can be done."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    key: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    ed25519: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{86}==$")]


class _Signatures(BaseModel):
    """The content of `signatures.json`: ids of keys, and 64 bytes each in base64."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    signatures: Annotated[tuple[_Entry, ...], Field(max_length=32)]


def read_keys(trusted: TrustedKeys) -> dict[str, PublicKey]:
    """Read the keys that are trusted, by name; a folder that is not there holds none.

    Raises:
        KeyUnusable: One is no public key: if it were silently ignored, it would be missed when it is needed. Or two
            have one name.
    """
    found = {}
    for path in sorted(trusted.folder.glob("*" + KEY_SUFFIX)):
        try:
            found[path.stem] = PublicKey.from_text(path.read_text(encoding="ascii").strip())
        except (KeyUnusable, UnicodeDecodeError):
            raise KeyUnusable(
                f"the trusted key `{path.stem}` cannot be used: its file must hold 32 bytes of Ed25519 in base64"
            ) from None
    for given in trusted.given:
        name, _, text = given.partition("=")
        key = PublicKey.from_text(text)
        if found.setdefault(name, key) != key:
            raise KeyUnusable(f"the settings (`models.trusted_keys`) and the state folder call two keys `{name}`")
    return found


def read_signed(folder: Path) -> Envelope:
    """Return a folder's manifest with its signatures; without `signatures.json` it has none.

    Raises:
        ModelMissing: There is no manifest.
        Untrusted: The file cannot be read as signatures.
    """
    payload = manifest_bytes(folder)
    try:
        found = _Signatures.model_validate_json((folder / SIGNATURES_NAME).read_bytes())
    except FileNotFoundError:
        return Envelope(_KIND, payload)
    except ValidationError:
        raise Untrusted(f"{folder / SIGNATURES_NAME} cannot be read. Remove it and sign the model again.") from None
    return Envelope(_KIND, payload, tuple(Signature(e.key, base64.b64decode(e.ed25519)) for e in found.signatures))


def sign(folder: Path, key: PrivateKey) -> None:
    """Add a signature to those of a folder; an earlier one by this key is replaced.

    Raises:
        ModelMissing: There is no manifest.
        Untrusted: The signatures that are there cannot be read.
    """
    signed = key.sign(read_signed(folder))
    entries = (_Entry(key=s.key_id, ed25519=base64.b64encode(s.value).decode()) for s in signed.signatures)
    content = _Signatures(signatures=tuple(entries)).model_dump_json(indent=2) + "\n"
    # Beside the folder: whoever is killed here must leave no file in it that its manifest does not list.
    part = folder.parent / f"{folder.name}.{SIGNATURES_NAME}.part"
    write_whole(folder / SIGNATURES_NAME, content.encode(), aside=part, mode=0o666)


def signers(folder: Path, keys: Mapping[str, PublicKey]) -> list[str]:
    """Return the names of those keys that signed the manifest as it is.

    Raises:
        ModelMissing: There is no manifest.
        Untrusted: A key is named whose signature is not one of this manifest, or the file cannot be read.
    """
    signed = read_signed(folder)
    valid = {key.id for key in signed.signed_by(keys.values())}
    for name in _named(signed, keys):
        if keys[name].id not in valid:
            raise Untrusted(
                f"The signature of `{name}` is not one of the manifest in {folder}: one of them was changed."
            )
    return [name for name, key in keys.items() if key.id in valid]


def require_signed(folder: Path, trusted: TrustedKeys) -> list[str]:
    """Refuse a model that no trusted key signed, and return the names of those that did.

    Raises:
        ModelMissing: There is no manifest.
        Untrusted: No trusted key signed it, or a signature is not of this manifest.
        KeyUnusable: A trusted key cannot be read.
    """
    found = signers(folder, read_keys(trusted))
    if not found:
        raise Untrusted(
            f"The model in {folder} is signed by nobody who is trusted here. Trust its publisher with `tidegate models "
            "keys add NAME KEY`, vouch for it yourself with `tidegate models sign`, or set `models.signatures: dev` "
            "where anything may run."
        )
    return found


def _named(signed: Envelope, keys: Mapping[str, PublicKey]) -> Iterable[str]:
    ids = {signature.key_id for signature in signed.signatures}
    return (name for name, key in keys.items() if key.id in ids)
