"""What the API is served with: TLS by a certificate of the operator's own, or by one that is made at start."""

import asyncio
import errno
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

log = structlog.get_logger()

CERTIFICATE, KEY = "tls.crt", "tls.key"
"""What the files are called, as in a Secret of the type kubernetes.io/tls."""
_SERVICE = "rowen-scheduler"
_DAYS = 3650
"""Nobody is asked whether to trust it, so nothing is won by a short life; each start makes another one."""
_AGAIN_SECONDS = 60.0
_NOEXEC_SEAL = 0x8
"""`MFD_NOEXEC_SEAL` of Linux 6.3, which Python does not name."""

_Pair = tuple[bytes, bytes]
"""A certificate, with those of its issuers, and its key: PEM."""


def tls_context(given: Path | None, namespace: str) -> ssl.SSLContext:
    """TLS 1.2 or later by the files in a folder; without one by a key and a certificate that are made now.

    Raises `OSError`, which an `ssl.SSLError` is too: the files are not there, or are no certificate with its key.
    """
    context = _empty()
    _load(context, _made(namespace) if given is None else _read(given))
    return context


async def keep_current(context: ssl.SSLContext, folder: Path) -> None:
    """Loads the files again each minute, for connections that come then: who issues them renews them."""
    while True:
        await asyncio.sleep(_AGAIN_SECONDS)
        try:
            # Read once: it may be renewed meanwhile. A load that fails half-way would leave the context without a key.
            pair = _read(folder)
            _load(_empty(), pair)
            _load(context, pair)
        except OSError as error:
            log.warning("the API's certificate cannot be read; the former one stays", error=str(error))


def _empty() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _read(folder: Path) -> _Pair:
    return (folder / CERTIFICATE).read_bytes(), (folder / KEY).read_bytes()


def _load(context: ssl.SSLContext, pair: _Pair) -> None:
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
        return os.memfd_create(_SERVICE, os.MFD_CLOEXEC | _NOEXEC_SEAL)
    except OSError as error:
        # A kernel before 6.3 knows no such flag.
        if error.errno != errno.EINVAL:
            raise
    return os.memfd_create(_SERVICE, os.MFD_CLOEXEC)


def _made(namespace: str) -> _Pair:
    """A key, and a certificate that it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _SERVICE)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(f"{_SERVICE}.{namespace}.svc")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), secret
