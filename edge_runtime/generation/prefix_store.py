"""Keys and values of prompts on the disk, so that a long prompt that was read before a restart is not read again.

A prompt is cut into blocks. A block's name is a hash over the model's digest, the salt, and every token up to its end:
whoever asks for it has the same tokens under the same salt, or finds nothing. Names say nothing of tokens, since the
hash has a key that never leaves the folder. Each file holds a checksum, and one that does not fit is thrown away.

Writing is another thread's work, which may fall behind: what it cannot take is not kept.
"""

from __future__ import annotations

import hashlib
import logging
import os
import queue
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observability.disk import write_whole

_logger = logging.getLogger(__name__)

BLOCK = 64
_SUM_BYTES = 32
_MOST_PENDING = 32  # blocks
_KEY_FILE = "key"
_SUFFIX = ".kv"

Cells = NDArray[Any]


@dataclass(frozen=True, slots=True)
class BlockShape:
    """Of one token's keys and values: `[layers, 2, heads, tokens, head size]` without the tokens."""

    layers: int
    heads: int
    head_size: int
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Of one block."""
        return self.layers * 2 * self.heads * BLOCK * self.head_size * self.dtype.itemsize

    def cells(self, raw: bytes | memoryview) -> Cells:
        """Return a block's bytes as an array."""
        return np.frombuffer(raw, self.dtype).reshape(self.layers, 2, self.heads, BLOCK, self.head_size)


class PrefixStore:
    """A folder of blocks, the least recently used of which go first. `find` and `keep` are for one thread."""

    def __init__(self, folder: Path, *, digest: str, shape: BlockShape, most_bytes: int) -> None:
        """Open a folder, or make it, for this user alone.

        Args:
            folder: Its own; nothing else is in it.
            digest: Of the model.
            shape: Of its cache.
            most_bytes: Of all files together.

        Raises:
            OSError: It cannot be used.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._digest = digest
        self._shape = shape
        self._most_bytes = most_bytes
        self._key = _read_key(folder / _KEY_FILE)
        self._pending: queue.Queue[tuple[Path, Cells] | None] = queue.Queue(_MOST_PENDING)
        self._writer = threading.Thread(target=self._write_pending, name="prefix-store", daemon=True)
        self._writer.start()

    def close(self) -> None:
        """Write what is pending, and end the thread."""
        self._pending.put(None)
        self._writer.join()

    def find(self, salt: str, prompt: Sequence[int], begin: int) -> Cells | None:
        """Return the block that begins at a place of a prompt; at least two tokens after it are left to be read."""
        if begin % BLOCK or begin + BLOCK + 1 >= len(prompt):
            return None
        path = self._path(salt, prompt[: begin + BLOCK])
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _logger.warning("A kept prefix cannot be read: %s", error.strerror)
            return None
        content = memoryview(raw)[_SUM_BYTES:]
        if len(content) != self._shape.nbytes or raw[:_SUM_BYTES] != _checksum(content):
            _logger.warning("A kept prefix is damaged and was thrown away.")
            path.unlink(missing_ok=True)
            return None
        os.utime(path)
        return self._shape.cells(content)

    def keep(self, salt: str, prompt: Sequence[int], read: Callable[[int, int], Cells]) -> None:
        """Keep the blocks of a prompt that are not there yet; the last one, cut short, is left out.

        Args:
            salt: What they may be shared within.
            prompt: Its tokens.
            read: Returns keys and values of a part.
        """
        for begin in range(0, len(prompt) - BLOCK + 1, BLOCK):
            path = self._path(salt, prompt[: begin + BLOCK])
            if self._pending.full():
                return
            if not path.exists():
                self._pending.put_nowait((path, read(begin, begin + BLOCK)))

    def _path(self, salt: str, tokens: Sequence[int]) -> Path:
        name = hashlib.blake2b(key=self._key, digest_size=20)
        for part in (self._digest.encode(), salt.encode()):
            name.update(len(part).to_bytes(4, "little") + part)
        name.update(np.array(tokens, np.int64).tobytes())
        return self._folder / f"{name.hexdigest()}{_SUFFIX}"

    def _write_pending(self) -> None:
        while (block := self._pending.get()) is not None:
            path, cells = block
            try:
                content = cells.tobytes()
                write_whole(path, _checksum(content), content, lasting=False)  # a damaged one is thrown away
                self._evict()
            except OSError as error:
                _logger.warning("A prefix could not be kept: %s", error.strerror)

    def _evict(self) -> None:
        files = sorted(self._files(), key=lambda entry: entry.stat().st_mtime_ns)
        excess = sum(entry.stat().st_size for entry in files) - self._most_bytes
        for entry in files:
            if excess <= 0:
                return
            excess -= entry.stat().st_size
            os.unlink(entry.path)

    def _files(self) -> Iterator[os.DirEntry[str]]:
        with os.scandir(self._folder) as entries:
            yield from (entry for entry in entries if entry.name.endswith(_SUFFIX))


def _read_key(path: Path) -> bytes:
    """Return the key of the folder's names, made once."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        key = secrets.token_bytes(32)
        with open(path, "xb", opener=_private) as file:
            file.write(key)
        return key


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_SUM_BYTES).digest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
