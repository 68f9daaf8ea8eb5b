"""What the API is served with: TLS by a certificate of the operator's own, or by one that is made at start."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rowen.kube.tls import Pair, context_of, read_pair

_SERVICE = "rowen-scheduler"
_DAYS = 3650
"""Nobody is asked whether to trust it, so nothing is won by a short life; each start makes another one."""


def tls_context(given: Path | None, namespace: str) -> ssl.SSLContext:
    """TLS 1.2 or later by the files in a folder; without one by a key and a certificate that are made now.

    Raises `OSError`, which an `ssl.SSLError` is too: the files are not there, or are no certificate with its key.
    """
    return context_of(_made(namespace) if given is None else read_pair(given))


def _made(namespace: str) -> Pair:
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
