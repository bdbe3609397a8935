"""TLS to one target: whom we trust there, what we show, and noticing that the files of either have changed."""

from __future__ import annotations

import ssl
from pathlib import Path

from gateway.reach_settings import TlsSettings

# Modification time, size and inode: a file that is replaced within one tick of the clock still differs.
_Stamp = tuple[int, int, int] | None


class TlsSource:
    """Makes contexts out of a target's settings."""

    def __init__(self, settings: TlsSettings) -> None:
        """Read nothing yet."""
        self._settings = settings
        self._files = [
            path for path in (settings.ca_file, settings.certificate_file, settings.key_file) if path is not None
        ]
        self._stamps: list[_Stamp] = []

    def context(self) -> ssl.SSLContext:
        """Return a context of the files as they are now. The host's name is always checked.

        Raises:
            ValueError: A file cannot be read, or is not what it should be. The message names no key.
        """
        own = self._settings
        stamps = self._stamped()
        try:
            context = ssl.create_default_context(cafile=own.ca_file)
            if own.certificate_file is not None:
                context.load_cert_chain(own.certificate_file, own.key_file)
        except (OSError, ssl.SSLError) as exc:
            named = ", ".join(path.name for path in self._files)
            raise ValueError(f"TLS cannot be set up from {named}: {exc.strerror or type(exc).__name__}.") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._stamps = stamps
        return context

    @property
    def has_changed(self) -> bool:
        """Whether a file is another one than the last context was made of."""
        return bool(self._files) and self._stamped() != self._stamps

    def _stamped(self) -> list[_Stamp]:
        return [_stamp(path) for path in self._files]


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
