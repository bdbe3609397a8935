"""What a policy is read from: a built-in one, a file, a bundle, or what an operator sent. Bytes, not yet trusted."""

from __future__ import annotations

import contextlib
import hashlib
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from routing_policies.policy.errors import PolicyError, choice
from routing_policies.policy.loader import builtin_names, builtin_text
from routing_policies.policy.yaml_source import MAX_BYTES

# A bundle holds the policy as a JSON string, which can be twice as long, with what is signed about it.
MAX_DOCUMENT_BYTES = 3 * MAX_BYTES
_TRIES = 20
_BETWEEN_READS_S = 0.1


@dataclass(frozen=True, slots=True)
class Document:
    """A policy as it was read.

    Attributes:
        origin: What to call it in messages.
        raw: Its bytes.
        sha256: Of them, hex; by this a version is kept and recognised.
    """

    origin: str
    raw: bytes
    sha256: str

    @classmethod
    def of(cls, origin: str, raw: bytes) -> Document:
        """Take bytes in.

        Raises:
            PolicyError: There are too many.
        """
        if len(raw) > MAX_DOCUMENT_BYTES:
            raise PolicyError(origin, 1, 1, f"the policy file is larger than {MAX_DOCUMENT_BYTES} bytes")
        return cls(origin, raw, hashlib.sha256(raw).hexdigest())

    @property
    def text(self) -> str:
        """The bytes as text.

        Raises:
            PolicyError: They are no UTF-8.
        """
        try:
            return self.raw.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise PolicyError(self.origin, self.raw.count(b"\n", 0, exc.start) + 1, 1, "not UTF-8") from None


def read_document(source: str) -> Document:
    """Read a built-in policy by its name, or a file. Symbolic links are followed anew each time.

    Raises:
        PolicyError: It cannot be read.
    """
    if source in builtin_names():
        return Document.of(f"builtin:{source}", builtin_text(source).encode())
    try:
        with Path(source).open("rb") as file:
            return Document.of(source, file.read(MAX_DOCUMENT_BYTES + 1))
    except FileNotFoundError:
        message = f"there is no such file and no such built-in policy{choice(source, builtin_names())}"
        raise PolicyError(source, 1, 1, message) from None
    except OSError as exc:
        raise PolicyError(source, 1, 1, f"cannot be read: {exc.strerror}") from None


def read_again(source: str) -> Document:
    """Read what is read time and again: a pipe would be waited for, and gives nothing the second time.

    Raises:
        PolicyError: It cannot be read, or is a pipe.
    """
    with contextlib.suppress(OSError):  # then reading says what is wrong
        if source not in builtin_names() and stat.S_ISFIFO(Path(source).stat().st_mode):
            raise PolicyError(source, 1, 1, "cannot be read: it is a pipe; name a file")
    return read_document(source)


def read_settled_document(source: str, pause: Callable[[float], object] = time.sleep) -> Document:
    """Read until two reads, with a pause between them, give the same: what is just being written is no policy yet.

    Raises:
        PolicyError: It cannot be read, or does not stay the same.
    """
    before = read_again(source)
    for _ in range(_TRIES):
        pause(_BETWEEN_READS_S)
        found = read_again(source)
        if found.sha256 == before.sha256:
            return found
        before = found
    raise PolicyError(source, 1, 1, "changes all the time while it is read; write it aside and rename it into place")
