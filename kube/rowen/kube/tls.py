"""A certificate and its key, out of files that whoever issued them renews."""

import asyncio
import errno
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

log = structlog.get_logger()

CERTIFICATE, KEY = "tls.crt", "tls.key"
"""What the files are called, as in a Secret of the type kubernetes.io/tls."""
_AGAIN_SECONDS = 60.0
_NAME = "rowen-tls"
_NOEXEC_SEAL = 0x8
"""`MFD_NOEXEC_SEAL` of Linux 6.3, which Python does not name."""

Pair = tuple[bytes, bytes]
"""A certificate, with those of its issuers, and its key: PEM."""


def context_of(pair: Pair) -> ssl.SSLContext:
    """A server's context, TLS 1.2 or later. Raises `ssl.SSLError`: these are no certificate with its key."""
    context = _empty()
    _load(context, pair)
    return context


def read_pair(folder: Path) -> Pair:
    """The files in a folder. Raises `OSError`."""
    return (folder / CERTIFICATE).read_bytes(), (folder / KEY).read_bytes()


async def keep_current(context: ssl.SSLContext, folder: Path) -> None:
    """Loads the files again each minute, for connections that come then: who issues them renews them."""
    while True:
        await asyncio.sleep(_AGAIN_SECONDS)
        try:
            # Read once: it may be renewed meanwhile. A load that fails half-way would leave the context without a key.
            pair = read_pair(folder)
            _load(_empty(), pair)
            _load(context, pair)
        except OSError as error:
            log.warning("the API's certificate cannot be read; the former one stays", error=str(error))


def _empty() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    # OpenSSL reads files alone: these are in memory, and nobody else's. Without a passphrase it would ask the terminal
    # for one, and the loop would wait for the answer.
    with _file(pair[0]) as certificate, _file(pair[1]) as key:
        context.load_cert_chain(certificate, key, password="")


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    with os.fdopen(_memory(), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _memory() -> int:
    """A file in memory that cannot be executed: where `vm.memfd_noexec` is 2, some kernels give no other."""
    try:
        return os.memfd_create(_NAME, os.MFD_CLOEXEC | _NOEXEC_SEAL)
    except OSError as error:
        # A kernel before 6.3 knows no such flag.
        if error.errno != errno.EINVAL:
            raise
    return os.memfd_create(_NAME, os.MFD_CLOEXEC)
