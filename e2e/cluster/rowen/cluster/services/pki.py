"""Certificates and kubeconfigs of the local cluster, made by openssl."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from rowen.cluster import files
from rowen.cluster.layout import API_SERVER, HOST_ADDRESS, SERVICE_IP, Layout
from rowen.cluster.process.shell import run

DAYS = "365"


@dataclass(frozen=True)
class Identity:
    """One certificate: its file name, subject, and the addresses it serves (none for a client)."""

    name: str
    common_name: str
    organisation: str = ""
    addresses: tuple[str, ...] = ()

    def subject(self) -> str:
        return (f"/O={self.organisation}" if self.organisation else "") + f"/CN={self.common_name}"

    def extensions(self) -> str:
        """The certificate is good for both ends of a connection; kubelet and etcd are both."""
        lines = ["basicConstraints=CA:FALSE", "keyUsage=digitalSignature", "extendedKeyUsage=clientAuth,serverAuth"]
        if self.addresses:
            lines.append("subjectAltName=" + ",".join(self.addresses))
        return "\n".join(lines) + "\n"


SERVER_NAMES = (
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    "DNS:kubernetes.default.svc.cluster.local",
    "DNS:localhost",
    "IP:127.0.0.1",
    f"IP:{SERVICE_IP}",
    f"IP:{HOST_ADDRESS}",
)
CONTROL_PLANE = (
    Identity("etcd", "etcd", addresses=("DNS:localhost", "IP:127.0.0.1")),
    Identity("apiserver", "kube-apiserver", "system:masters", SERVER_NAMES),
    Identity("admin", "rowen-dev-admin", "system:masters"),
    Identity("controller-manager", "system:kube-controller-manager"),
    Identity("scheduler", "system:kube-scheduler"),
    Identity("proxy", "system:kube-proxy"),
)


def kubelet_identity(node: str, address: str) -> Identity:
    """The node authorizer recognises a kubelet by exactly this name and group."""
    return Identity(f"kubelet-{node}", f"system:node:{node}", "system:nodes", (f"DNS:{node}", f"IP:{address}"))


def ensure(layout: Layout, identities: tuple[Identity, ...]) -> int:
    """Make what is missing; returns how many files were signed."""
    _ensure_authority(layout.pki)
    _ensure_service_account_keys(layout.pki)
    missing = [identity for identity in identities if not (layout.pki / f"{identity.name}.crt").exists()]
    for identity in missing:
        _sign(layout.pki, identity)
    return len(missing)


def _ensure_authority(folder: Path) -> None:
    if (folder / "ca.crt").exists():
        return
    _ensure_key(folder / "ca.key")
    request: list[str | Path] = [
        "openssl",
        "req",
        "-x509",
        "-new",
        "-key",
        folder / "ca.key",
        "-subj",
        "/CN=rowen-dev",
        "-days",
        DAYS,
    ]
    usage = ["-addext", "keyUsage=critical,digitalSignature,keyCertSign,cRLSign"]
    run([*request, *usage, "-out", folder / "ca.crt"])


def _ensure_service_account_keys(folder: Path) -> None:
    """The API server reads the public half from a file of its own: it does not take it out of PKCS #8."""
    _ensure_key(folder / "sa.key")
    if not (folder / "sa.pub").exists():
        run(["openssl", "pkey", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub"])


def _ensure_key(path: Path) -> None:
    if not path.exists():
        run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path])
        path.chmod(0o600)


def _sign(folder: Path, identity: Identity) -> None:
    key, request, extensions = (folder / f"{identity.name}.{kind}" for kind in ("key", "csr", "ext"))
    _ensure_key(key)
    extensions.write_text(identity.extensions())
    run(["openssl", "req", "-new", "-key", key, "-subj", identity.subject(), "-out", request])
    certificate = folder / f"{identity.name}.crt"
    sign = ["openssl", "x509", "-req", "-CAcreateserial", "-days", DAYS]
    authority: list[str | Path] = ["-CA", folder / "ca.crt", "-CAkey", folder / "ca.key"]
    run([*sign, *authority, "-in", request, "-extfile", extensions, "-out", certificate])
    request.unlink()
    extensions.unlink()


def write_kubeconfig(layout: Layout, identity: str, path: Path) -> Path:
    """A kubeconfig with everything inside, readable by root alone; rewritten only when it changed."""
    text = render_kubeconfig(
        *(_encoded(layout.pki / name) for name in ("ca.crt", f"{identity}.crt", f"{identity}.key"))
    )
    files.write(path, text, mode=0o600)
    return path


def render_kubeconfig(authority: str, certificate: str, key: str) -> str:
    """A kubeconfig as JSON, which is YAML; the arguments are base64."""
    cluster = {"server": API_SERVER, "certificate-authority-data": authority}
    user = {"client-certificate-data": certificate, "client-key-data": key}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rowen", "cluster": cluster}],
        "users": [{"name": "rowen", "user": user}],
        "contexts": [{"name": "rowen", "context": {"cluster": "rowen", "user": "rowen"}}],
        "current-context": "rowen",
    }
    return json.dumps(content, indent=2) + "\n"


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
