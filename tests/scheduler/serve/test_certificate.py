"""The API by TLS: a real server and real clients."""

import asyncio
import contextlib
import errno
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from apiserver import free_port
from certificates import issued
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from scheduler.builders import device, job, node, world
from scheduler.serve.test_server import STATUS, Everything, Source
from structlog.testing import capture_logs

from rowen.kube import tls
from rowen.kube.serving import http_server
from rowen.kube.tls import keep_current
from rowen.scheduler.serve.certificate import tls_context
from rowen.scheduler.serve.server import create_app

QUESTION = "/v1/explain/ns/y"
TOKEN = {"Authorization": "Bearer x"}


@asynccontextmanager
async def served(tls: ssl.SSLContext) -> AsyncIterator[int]:
    """The API with one job, on a port of this machine."""
    source, port = Source(world(node("a", device("a")), job("y", status=STATUS))), free_port()
    server = http_server(create_app(source, Everything()), port, tls)
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.01)
        yield port
    finally:
        server.should_exit = True
        await serving


async def ask(port: int, verify: ssl.SSLContext | bool) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"https://127.0.0.1:{port}", trust_env=False, verify=verify) as client:
        return await client.get(QUESTION, headers=TOKEN)


_START = """
import sys
from pathlib import Path
from rowen.scheduler.serve.certificate import tls_context
try:
    tls_context(Path(sys.argv[1]), "n")
except OSError:
    sys.exit(3)
"""


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_a_question_is_answered_by_tls_and_not_in_clear() -> None:
    async with served(tls_context(None, "rowen-system")) as port:
        assert (await ask(port, verify=False)).status_code == 200
        async with httpx.AsyncClient(trust_env=False) as client:
            with pytest.raises(httpx.TransportError):
                await client.get(f"http://127.0.0.1:{port}{QUESTION}", headers=TOKEN)
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await ask(port, verify=True)


async def test_each_start_makes_another_certificate_and_leaves_no_key_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    load, links = ssl.SSLContext.load_cert_chain, []

    def look(self: ssl.SSLContext, cert: str, key: str, **more: Any) -> None:
        links.append([Path(path).readlink() for path in (cert, key)])
        load(self, cert, key, **more)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", look)
    seen = []
    for _ in range(2):
        async with served(tls_context(None, "rowen-system")) as port:
            text = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
            seen.append(x509.load_pem_x509_certificate(text.encode()))
    assert links == [[Path("/memfd:rowen-tls (deleted)")] * 2] * 2
    assert left_in(tmp_path) == []
    assert seen[0].public_key() != seen[1].public_key()
    (names,) = [e.value for e in seen[0].extensions if isinstance(e.value, x509.SubjectAlternativeName)]
    assert names.get_values_for_type(x509.DNSName) == ["rowen-scheduler.rowen-system.svc"]


@pytest.mark.parametrize(
    ("refused", "error", "asked"),
    [(0, errno.EACCES, [0x9, 0x9]), (0x8, errno.EINVAL, [0x9, 0x1, 0x9, 0x1])],
    ids=["what could be executed is refused", "a kernel before 6.3"],
)
def test_its_files_in_memory_are_had_of_any_kernel(
    monkeypatch: pytest.MonkeyPatch, refused: int, error: int, asked: list[int]
) -> None:
    make, flags = os.memfd_create, []

    def kernel(name: str, given: int = os.MFD_CLOEXEC) -> int:
        flags.append(given)
        if given & 0x8 == refused:
            raise OSError(error, os.strerror(error))
        return make(name, os.MFD_CLOEXEC)

    monkeypatch.setattr(os, "memfd_create", kernel)
    tls_context(None, "n")
    assert flags == asked


def test_a_kernel_that_gives_no_file_in_memory_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def full(*arguments: Any) -> int:
        asked.append(arguments)
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(os, "memfd_create", full)
    with pytest.raises(OSError, match="too many"):
        tls_context(None, "n")
    assert len(asked) == 1


def test_nothing_older_than_tls_1_2_is_spoken(tmp_path: Path) -> None:
    issued(tmp_path, 1)
    for given in (None, tmp_path):
        assert tls_context(given, "n").minimum_version == ssl.TLSVersion.TLSv1_2


async def test_a_certificate_of_ones_own_is_checked_by_who_trusts_its_issuer(tmp_path: Path) -> None:
    trusted = issued(tmp_path, 1)
    async with served(tls_context(tmp_path, "n")) as port:
        assert (await ask(port, trusted)).status_code == 200


async def test_a_renewed_certificate_is_served_and_a_broken_one_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tls, "_AGAIN_SECONDS", 0.01)
    first = issued(tmp_path, 1)
    context = tls_context(tmp_path, "n")
    keeping = asyncio.create_task(keep_current(context, tmp_path))
    async with served(context) as port:
        whole = (tmp_path / "tls.key").read_text()
        (tmp_path / "tls.key").write_text("none")
        await asyncio.sleep(0.2)
        assert (await ask(port, first)).status_code == 200
        (tmp_path / "tls.key").write_text(whole)
        second = issued(tmp_path, 2)
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(httpx.ConnectError):
                    assert (await ask(port, second)).status_code == 200
                    break
                await asyncio.sleep(0.05)
        with pytest.raises(httpx.ConnectError):
            await ask(port, first)
    keeping.cancel()


async def test_what_is_renewed_while_it_is_read_is_left_for_the_next_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of the pair that was tried nothing is read again, and one that does not match is not served."""
    monkeypatch.setattr(tls, "_AGAIN_SECONDS", 0.01)
    issued(tmp_path, 1)
    context = tls_context(tmp_path, "n")
    load, read, loaded, reads = ssl.SSLContext.load_cert_chain, Path.read_bytes, [], []

    def renewing(self: ssl.SSLContext, cert: str, key: str, **more: Any) -> None:
        load(self, cert, key, **more)
        loaded.append(self)
        if self is context:
            issued(tmp_path, 2 + len(loaded))
        else:
            (tmp_path / "tls.key").write_text("half of one")

    def torn(path: Path) -> bytes:
        reads.append(path)
        found = read(path)
        if len(reads) == 1:
            issued(tmp_path, 2)
        return found

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", renewing)
    monkeypatch.setattr(Path, "read_bytes", torn)
    with capture_logs() as logs:
        keeping = asyncio.create_task(keep_current(context, tmp_path))
        async with asyncio.timeout(60):
            while len(loaded) < 6:
                assert not keeping.done()
                await asyncio.sleep(0.01)
        keeping.cancel()
    assert [found is context for found in loaded[:6]] == [False, True] * 3
    assert len(logs) == 1


@pytest.mark.parametrize("file", ["tls.crt", "tls.key"])
def test_files_that_are_no_certificate_end_the_start(tmp_path: Path, file: str) -> None:
    issued(tmp_path, 1)
    (tmp_path / file).write_text("none")
    with pytest.raises(OSError, match=r".+"):
        tls_context(tmp_path, "n")
    (tmp_path / file).unlink()
    with pytest.raises(OSError, match="No such file"):
        tls_context(tmp_path, "n")


def test_nobody_is_asked_for_the_passphrase_of_a_key(tmp_path: Path) -> None:
    issued(tmp_path, 1)
    key = serialization.load_pem_private_key((tmp_path / "tls.key").read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (tmp_path / "tls.key").write_bytes(key.private_bytes(pem, form, locked))
    with subprocess.Popen(
        [sys.executable, "-c", _START, tmp_path], stdin=subprocess.PIPE, start_new_session=True
    ) as asked:
        assert asked.wait(60) == 3
