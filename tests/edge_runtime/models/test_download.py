"""One file over real sockets, from a server that is cut off, lies, asks for tokens or sends elsewhere."""

from __future__ import annotations

import hashlib
import io
import random
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest
import trustme
from rich.console import Console

from edge_runtime.models.errors import ContentRefused, NoSpace, SourceUnavailable
from edge_runtime.models.sources.connections import open_client
from edge_runtime.models.sources.download import Downloader, Remote
from edge_runtime.models.sources.meter import Meter
from tests.support.model_host import (
    ModelHost,
    cut_after,
    etag_of,
    model_host,
    promising,
    redirect,
    refuse,
    serve,
    web_page,
)

CONTENT = random.Random(1).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PATH = "/weights.gguf"


@pytest.fixture
def host() -> Iterator[ModelHost]:
    with model_host() as found:
        found.files[PATH] = CONTENT
        yield found


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def downloader(said: io.StringIO) -> Iterator[Downloader]:
    with open_client() as client:
        yield Downloader(client, Meter(Console(file=said, width=200)), sleep=lambda _: None)


def test_a_file_comes_whole(host: ModelHost, downloader: Downloader, tmp_path: Path, said: io.StringIO) -> None:
    assert downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w") == SHA256
    assert (tmp_path / "w").read_bytes() == CONTENT
    assert "0.0 MB of 0.3" in said.getvalue()


def test_a_lost_connection_is_gone_on_with_where_it_was_lost(
    host: ModelHost, downloader: Downloader, tmp_path: Path
) -> None:
    host.next_answers[PATH] += [cut_after(100_000), cut_after(50_000)]
    assert downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w") == SHA256
    asked = host.asked_for(PATH)
    assert [headers.get("range") for headers in asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert asked[1]["if-range"] == etag_of(CONTENT)


def test_what_was_kept_is_gone_on_with_by_the_next_process(
    host: ModelHost, downloader: Downloader, tmp_path: Path
) -> None:
    host.next_answers[PATH] += [cut_after(100_000), *[refuse(503)] * 5]
    with pytest.raises(SourceUnavailable, match=r"w could not be fetched: .*503.*0\.1 MB of it are kept"):
        downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w")
    assert not (tmp_path / "w").exists()
    assert downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w") == SHA256
    assert host.asked_for(PATH)[-1]["range"] == "bytes=100000-"


def test_a_file_that_changed_meanwhile_comes_whole(host: ModelHost, downloader: Downloader, tmp_path: Path) -> None:
    host.next_answers[PATH] += [cut_after(100_000), *[refuse(503)] * 5]
    with pytest.raises(SourceUnavailable):
        downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w")
    host.files[PATH] = changed = CONTENT[::-1]
    downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w")
    assert (tmp_path / "w").read_bytes() == changed


def test_a_file_that_became_shorter_than_what_is_here_starts_over(
    host: ModelHost, downloader: Downloader, tmp_path: Path
) -> None:
    host.next_answers[PATH] += [cut_after(100_000), refuse(416)]
    assert downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w") == SHA256
    assert [headers.get("range") for headers in host.asked_for(PATH)] == [None, "bytes=100000-", None]


def test_a_server_that_promises_more_than_it_sends_is_given_up(
    host: ModelHost, downloader: Downloader, tmp_path: Path
) -> None:
    host.next_answers[PATH] += [promising(len(CONTENT) + 10)] * 12
    with pytest.raises(SourceUnavailable, match="could not be fetched"):
        downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_a_file_that_is_longer_than_its_listing_says_is_refused(
    host: ModelHost, downloader: Downloader, tmp_path: Path
) -> None:
    with pytest.raises(ContentRefused, match="longer than the 1000 bytes"):
        downloader.fetch(Remote(host.url + PATH, "w", size=1000), tmp_path / "w")
    assert not (tmp_path / "w.part").exists()


def test_a_file_shorter_than_its_listing_says_is_given_up(
    host: ModelHost, downloader: Downloader, tmp_path: Path
) -> None:
    with pytest.raises(SourceUnavailable, match="300000 of 300001 bytes"):
        downloader.fetch(Remote(host.url + PATH, "w", size=300_001), tmp_path / "w")


def test_other_content_than_was_promised_is_refused_and_not_kept(
    host: ModelHost, downloader: Downloader, tmp_path: Path
) -> None:
    with pytest.raises(ContentRefused, match=SHA256):
        downloader.fetch(Remote(host.url + PATH, "w", sha256="0" * 64), tmp_path / "w")
    assert not list(tmp_path.iterdir())


def test_a_login_page_is_called_what_it_is(host: ModelHost, downloader: Downloader, tmp_path: Path) -> None:
    host.next_answers[PATH].append(web_page)
    with pytest.raises(ContentRefused, match=r"w is a web page.*login page"):
        downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (refuse(401), "asks for a token: set HF_TOKEN"),
        (refuse(403, x_error_code="GatedRepo"), "accept the terms|accepted the terms"),
        (refuse(404, x_error_code="RepoNotFound"), "no such repository"),
        (refuse(404), "it is not there"),
        (refuse(418), "no answer to work with"),
    ],
)
def test_a_refusal_says_what_to_do_and_is_not_repeated(
    host: ModelHost, downloader: Downloader, tmp_path: Path, answer: object, message: str
) -> None:
    host.next_answers[PATH].append(answer)  # type: ignore[arg-type]  # parametrize knows no types
    with pytest.raises(SourceUnavailable, match=message):
        downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w")
    assert len(host.seen) == 1


def test_a_token_goes_to_the_first_host_alone_and_the_linked_digest_counts(
    host: ModelHost, downloader: Downloader, tmp_path: Path
) -> None:
    with model_host() as storage:
        storage.files["/blob"] = CONTENT
        host.next_answers[PATH].append(redirect(f"{storage.url}/blob?signature=s", x_linked_etag=f'"{SHA256}"'))
        assert downloader.fetch(Remote(host.url + PATH, "w", token="hf_secret"), tmp_path / "w") == SHA256
        assert host.seen[0][1]["authorization"] == "Bearer hf_secret"
        assert "authorization" not in storage.seen[0][1]
        storage.files["/blob"] = CONTENT[::-1]
        host.next_answers[PATH].append(redirect(f"{storage.url}/blob", x_linked_etag=f'"{SHA256}"'))
        with pytest.raises(ContentRefused, match="promised"):
            downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "other")


@pytest.mark.parametrize(
    "location",
    ["http://169.254.169.254/latest/meta-data/", "http://[fe80::1]/", "http://[::ffff:169.254.169.254]/", "ftp://x/"],
)
def test_a_redirect_into_the_machines_own_network_is_refused(
    host: ModelHost, downloader: Downloader, tmp_path: Path, location: str
) -> None:
    host.next_answers[PATH].append(redirect(location))
    with pytest.raises(SourceUnavailable, match="sends the download on to"):
        downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w")


def test_what_is_connected_to_is_what_was_looked_at(
    host: ModelHost, downloader: Downloader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads elsewhere the second time it is asked for, as an attacker's does, is not asked for twice."""
    real, asked = socket.getaddrinfo, list[str]()

    def answer(name: str, *rest: object, **more: object) -> object:
        if str(name).endswith(".test"):
            assert name not in asked, f"{name} was resolved again"
            asked.append(name)
            name = "127.0.0.1"
        return real(name, *rest, **more)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    port = host.url.rpartition(":")[2]
    host.next_answers[PATH].append(redirect(f"http://storage.test:{port}/blob"))
    host.files["/blob"] = CONTENT
    assert downloader.fetch(Remote(f"http://hub.test:{port}{PATH}", "w"), tmp_path / "w") == SHA256
    assert asked == ["hub.test", "storage.test"]
    assert [headers["host"] for _, headers in host.seen] == [f"hub.test:{port}", f"storage.test:{port}"]


def test_a_name_of_public_and_private_addresses_opens_no_way_inside(
    host: ModelHost, downloader: Downloader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo
    port = int(host.url.rpartition(":")[2])
    two = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.1", "8.8.8.8")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, *r, **m: two if name == "hub.test" else real(name, *r, **m))
    host.next_answers[PATH].append(redirect(f"{host.url}/blob"))
    with pytest.raises(SourceUnavailable, match="a place inside this machine's network"):
        downloader.fetch(Remote(f"http://hub.test:{port}{PATH}", "w"), tmp_path / "w")


def test_a_certificate_must_be_of_the_name_and_not_of_the_address(
    host: ModelHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hub.test").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("NO_PROXY", ".test")
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda name, *r, **m: real("127.0.0.1" if ".test" in str(name) else name, *r, **m)
    )
    with model_host(context) as encrypted, open_client() as client:
        encrypted.files[PATH] = CONTENT
        port = encrypted.url.rpartition(":")[2]
        downloader = Downloader(client, Meter(Console(file=io.StringIO())), sleep=lambda _: None)
        remote = Remote(f"https://hub.test:{port}{PATH}", "w")
        assert downloader.fetch(remote, tmp_path / "w") == SHA256
        with pytest.raises(SourceUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            downloader.fetch(Remote(f"https://other.test:{port}{PATH}", "w"), tmp_path / "other")


def test_redirects_without_end_are_given_up(host: ModelHost, downloader: Downloader, tmp_path: Path) -> None:
    host.next_answers[PATH] += [redirect(PATH)] * 10
    with pytest.raises(SourceUnavailable, match="do not end"):
        downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w")
    assert len(host.seen) < 10


def test_a_file_larger_than_the_disk_is_refused_before_it_is_fetched(
    host: ModelHost, downloader: Downloader, tmp_path: Path
) -> None:
    host.next_answers[PATH].append(lambda handler, content: serve(handler, content, only=10, length=1 << 55))
    with pytest.raises(NoSpace, match="MiB are needed"):
        downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w")


def test_a_server_that_falls_silent_is_asked_again_for_the_rest(host: ModelHost, tmp_path: Path) -> None:
    over = threading.Event()

    def fall_silent(handler: BaseHTTPRequestHandler, content: bytes) -> None:
        serve(handler, content, only=100_000)
        over.wait(30)

    host.next_answers[PATH].append(fall_silent)
    with open_client(httpx.Timeout(0.5)) as client:
        impatient = Downloader(client, Meter(Console(file=io.StringIO())), sleep=lambda _: None)
        assert impatient.fetch(Remote(host.url + PATH, "w"), tmp_path / "w") == SHA256
    over.set()
    assert host.asked_for(PATH)[1]["range"] == "bytes=100000-"


def test_a_server_that_only_hangs_up_is_given_up(host: ModelHost, downloader: Downloader, tmp_path: Path) -> None:
    host.next_answers[PATH] += [cut_after(0)] * 9
    with pytest.raises(SourceUnavailable, match="could not be fetched"):
        downloader.fetch(Remote(host.url + PATH, "w"), tmp_path / "w")
    assert len(host.seen) == 5


def test_progress_tells_rate_and_what_remains_where_there_is_no_terminal() -> None:
    said, now = io.StringIO(), [0.0]
    meter = Meter(Console(file=said, width=200), clock=lambda: now[0])
    meter.begin("w", 10_000_000, 110_000_000)
    now[0] = 20.0
    meter.advance(40_000_000)
    assert said.getvalue().splitlines() == [
        "w: 10.0 MB of 110.0",
        "w: 50.0 MB of 110.0, 2.0 MB/s, 30 s left",
    ]
