"""What the API is served with: TLS by a certificate of the operator's own, or by one that is made at start."""

import asyncio
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

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


def tls_context(given: Path | None, namespace: str) -> ssl.SSLContext:
    """TLS 1.2 or later by the files in a folder; without one by a key and a certificate that are made now.

    Raises `OSError`, which an `ssl.SSLError` is too: the files are not there, or are no certificate with its key.
    """
    context = _empty()
    if given is not None:
        _load(context, given)
        return context
    # OpenSSL reads files alone, and only once. The folder is for this process's user alone.
    with TemporaryDirectory(prefix="rowen-tls-") as made:
        folder = Path(made)
        _make(folder, namespace)
        _load(context, folder)
    return context


async def keep_current(context: ssl.SSLContext, folder: Path) -> None:
    """Loads the files again each minute, for connections that come then: who issues them renews them."""
    while True:
        await asyncio.sleep(_AGAIN_SECONDS)
        try:
            # One that fails half-way would leave the context without a key.
            _load(_empty(), folder)
            _load(context, folder)
        except OSError as error:
            log.warning("the API's certificate cannot be read; the former one stays", error=str(error))


def _empty() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(context: ssl.SSLContext, folder: Path) -> None:
    # Without a passphrase OpenSSL would ask the terminal for one, and the loop would wait for the answer.
    context.load_cert_chain(folder / CERTIFICATE, folder / KEY, password="")


def _make(folder: Path, namespace: str) -> None:
    """A key, and a certificate that it signs itself, in files that nobody else reads."""
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
    _write(folder / CERTIFICATE, certificate.public_bytes(pem))
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _write(folder / KEY, secret)


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
