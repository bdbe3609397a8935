"""TLS of a program's own address: what it shows, whom it asks for certificates, and files that change under it.

New connections are made under the files as they are now. Open ones stay as they are, and nothing that runs on them
notices. A pair that does not fit, or a file that cannot be read, leaves the ones before in use.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from serving.start import StartRefused

_EVERY_S = 1.0

_logger = logging.getLogger(__name__)

# Modification time, size and inode: a file that is replaced within one tick of the clock still differs.
_Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files.

    Attributes:
        client_ca: Whose certificates clients must show; `None` where they need none.
        client_names: One of them must be in such a certificate, as a subject's alternative name; any where there are
            none.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    client_names: frozenset[str] = frozenset()


class _Context(ssl.SSLContext):
    """Knows whom it is for: Python's `ssl` asks nobody of us during the handshake.

    Attributes:
        client_names: See `TlsFiles`.
        turned_away: How many clients had none of these names.
    """

    client_names: frozenset[str] = frozenset()
    turned_away = 0


def lets_in(connection: ssl.SSLObject | None) -> bool:
    """Whether a connection's client, whose certificate holds, also has a name that is listed."""
    context = None if connection is None else connection.context
    if connection is None or not isinstance(context, _Context) or not context.client_names:
        return True
    certificate = connection.getpeercert() or {}
    shown = certificate.get("subjectAltName", ())
    if any(_is_listed(str(entry[0]), str(entry[1]), context.client_names) for entry in shown):
        return True
    context.turned_away += 1
    if context.turned_away & (context.turned_away - 1) == 0:  # the first, second, fourth: nobody can flood the log
        _logger.warning("Turned %d clients away whose certificates have no name that is listed", context.turned_away)
    return False


def _is_listed(kind: str, name: str, listed: frozenset[str]) -> bool:
    """Of names alone DNS's are the same in any case (RFC 4343)."""
    return name in listed or (kind == "DNS" and name.lower() in map(str.lower, listed))


class ServerTls:
    """Gives each connection the newest context."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files.

        Raises:
            StartRefused: They cannot be used.
        """
        self._files = files
        self._stamps = self._stamped()
        self._asked = asyncio.Event()
        try:
            self.context = self._current = _context(files)
        except (OSError, ssl.SSLError) as exc:
            raise StartRefused(f"TLS cannot be set up: {_in_words(exc, files)}.") from None
        # Called for each connection once it has said hello, whether or not it names a server.
        self.context.sni_callback = self._choose

    def ask(self) -> None:
        """Have the files looked at now."""
        self._asked.set()

    async def watch(self) -> None:
        """Take up files that change, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_S):
                    await self._asked.wait()
            stamps = await asyncio.to_thread(self._stamped)
            if stamps == self._stamps and not self._asked.is_set():
                continue
            self._asked.clear()
            self._stamps = stamps
            await asyncio.to_thread(self._renew)

    def _renew(self) -> None:
        try:
            self._current = _context(self._files)
        except (OSError, ssl.SSLError) as exc:
            _logger.error("The certificates stay as they were: %s.", _in_words(exc, self._files))
        else:
            _logger.info("New connections are made under %s as it is now.", self._files.certificate.name)

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _first: ssl.SSLContext) -> None:
        connection.context = self._current

    def _stamped(self) -> list[_Stamp]:
        files = self._files
        return [_stamp(path) for path in (files.certificate, files.key, files.client_ca) if path is not None]


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = _Context(ssl.PROTOCOL_TLS_SERVER)
    context.client_names = files.client_names
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(files.certificate, files.key)
    context.set_alpn_protocols(["http/1.1"])
    # No session is taken up again: a client whose certificate holds no more would come in by what it showed before.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    if files.client_ca is not None:
        # Before 1.3 sessions are also remembered here, which cannot be turned off.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(files.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _in_words(fault: OSError, files: TlsFiles) -> str:
    """Say what is wrong, by the files' names: of the key not even that is told."""
    named = ", ".join(path.name for path in (files.certificate, files.client_ca) if path is not None)
    return f"{named} or the key that goes with it cannot be used ({fault.strerror or type(fault).__name__})"
