"""A real API server with etcd for integration tests: no kubelet, no scheduler, RBAC on, Rowen's CRDs loaded.

The tests play kubelet and kube-scheduler by writing pod status. `ApiServer.kubeconfig_for` makes clients of any
user and group, so that a component can be run with the rights of its own ClusterRole.
"""

import asyncio
import contextlib
import datetime
import ipaddress
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from manifests import apply

from rowen.crds.kinds import KINDS
from rowen.crds.manifest import definition
from rowen.kube.client import Client, open_client
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import NAMESPACES
from rowen.kube.objects import delete

BINARIES = Path("/var/lib/rowen-dev/bin")
START_SECONDS = 90.0


class Authority:
    """A throw-away certificate authority; files lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rowen-test-ca")])
        certificate = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self._write("ca", certificate.sign(self._key, hashes.SHA256()), self._key)

    def issue(self, file: str, common_name: str, groups: Sequence[str] = (), *, server: bool = False) -> None:
        """Writes FILE.crt and FILE.key: a client's certificate, or the server's for 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
            + [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        )
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = self._builder(subject, key).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if server:
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        self._write(file, builder.sign(self._key, hashes.SHA256()), key)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=2))
        )

    def _write(self, file: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        pem = serialization.Encoding.PEM
        (self.folder / f"{file}.crt").write_bytes(certificate.public_bytes(pem))
        plain = key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
        (self.folder / f"{file}.key").write_bytes(plain)


@dataclass(frozen=True)
class ApiServer:
    """A running API server."""

    url: str
    kubeconfig: Path
    """Administrator's kubeconfig."""
    authority: Authority

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig whose client is that user, e.g. `system:serviceaccount:rowen-system:operator`."""
        file = f"user-{uuid.uuid4().hex[:8]}"
        self.authority.issue(file, user, groups)
        return _write_kubeconfig(self.authority.folder, file, self.url)

    async def open(self, kubeconfig: Path | None = None) -> Client:
        """A client; the administrator's by default. It has to be closed."""
        return await open_client(str(kubeconfig or self.kubeconfig))


def _write_kubeconfig(folder: Path, file: str, url: str) -> Path:
    path = folder / f"{file}.kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(folder / "ca.crt")}}],
        "users": [
            {
                "name": "test",
                "user": {
                    "client-certificate": str(folder / f"{file}.crt"),
                    "client-key": str(folder / f"{file}.key"),
                },
            }
        ],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def free_port() -> int:
    """A loopback TCP port that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _start(folder: Path, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    with (folder / f"{program}.log").open("wb") as log:
        return subprocess.Popen([BINARIES / program, *arguments], stdout=log, stderr=log)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _start_etcd(folder: Path, client_url: str) -> subprocess.Popen[bytes]:
    peer = f"http://127.0.0.1:{free_port()}"
    return _start(
        folder, "etcd", "--unsafe-no-fsync", "--log-level=error",
        f"--data-dir={folder / 'etcd'}", f"--listen-client-urls={client_url}", f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
    )  # fmt: skip


def _start_server(folder: Path, etcd: str, port: int) -> subprocess.Popen[bytes]:
    return _start(
        folder, "kube-apiserver",
        f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", f"--secure-port={port}", "--authorization-mode=Node,RBAC",
        f"--tls-cert-file={folder / 'server.crt'}", f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'ca.crt'}", "--service-cluster-ip-range=10.0.0.0/16",
        f"--service-account-key-file={folder / 'ca.key'}", f"--service-account-signing-key-file={folder / 'ca.key'}",
        "--service-account-issuer=https://rowen.test", f"--cert-dir={folder}",
        # Nobody makes the `default` service accounts here, and without them no pod would be admitted.
        "--disable-admission-plugins=ServiceAccount",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    )  # fmt: skip


def _await_ready(url: str, folder: Path, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
    deadline = time.monotonic() + START_SECONDS
    with httpx.Client(verify=context, trust_env=False, timeout=2) as client:
        while time.monotonic() < deadline:
            if any(process.poll() is not None for process in processes):
                break
            try:
                if client.get(f"{url}/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
    logs = "\n".join(f"{log.name}:\n{log.read_text()[-2000:]}" for log in folder.glob("*.log"))
    pytest.fail(f"the API server did not become ready\n{logs}")


async def _load_definitions(server: ApiServer) -> None:
    async with await server.open() as client:
        for kind in KINDS:
            await apply(client, definition(kind), manager="test")
        for kind in KINDS:
            await _await_established(client, kind.plural)
        await _await_described(client)


async def _await_established(client: Client, plural: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(RefusedError):
            await client.call("GET", f"/apis/rowen.dev/v1alpha1/{plural}")
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"CRD {plural} was not served")


async def _await_described(client: Client) -> None:
    """What `kubectl explain` reads follows the definitions a moment later."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(RefusedError):
            described = await client.call("GET", "/openapi/v3/apis/rowen.dev/v1alpha1")
            if all(f".{kind.name}'" in str(described) for kind in KINDS):
                return
        await asyncio.sleep(0.05)
    pytest.fail("the CRDs were not described")


@pytest.fixture(scope="session")
def api_server() -> Iterator[ApiServer]:
    """An API server for the whole test session; tests keep apart by namespace."""
    if not all((BINARIES / program).exists() for program in ("etcd", "kube-apiserver")):
        pytest.skip(f"no etcd and kube-apiserver in {BINARIES}: `make tools` makes them")
    folder = Path(tempfile.mkdtemp(prefix="rowen-apiserver-"))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        authority = Authority(folder)
        authority.issue("server", "kube-apiserver", server=True)
        authority.issue("admin", "admin", ["system:masters"])
        etcd, port = f"http://127.0.0.1:{free_port()}", free_port()
        url = f"https://127.0.0.1:{port}"
        processes = [_start_etcd(folder, etcd), _start_server(folder, etcd, port)]
        _await_ready(url, folder, processes)
        server = ApiServer(url, _write_kubeconfig(folder, "admin", url), authority)
        asyncio.run(_load_definitions(server))
        yield server
    finally:
        for process in reversed(processes):
            _stop(process)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def controller_manager(api_server: ApiServer) -> Iterator[None]:
    """The garbage collector and the Deployment controllers, for tests of what follows from owner references."""
    if not (BINARIES / "kube-controller-manager").exists():
        pytest.skip(f"no kube-controller-manager in {BINARIES}")
    process = _start(
        api_server.authority.folder, "kube-controller-manager",
        f"--kubeconfig={api_server.kubeconfig}", "--leader-elect=false", "--secure-port=0",
        "--controllers=garbage-collector-controller,deployment-controller,replicaset-controller,namespace-controller",
    )  # fmt: skip
    try:
        yield
    finally:
        _stop(process)


@pytest.fixture
async def kube(api_server: ApiServer) -> AsyncIterator[Client]:
    """The administrator's client."""
    async with await api_server.open() as client:
        yield client


@pytest.fixture
async def namespace(kube: Client) -> AsyncIterator[str]:
    """A fresh namespace that enforces the restricted Pod Security profile."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    manifest: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}
    }  # fmt: skip
    await apply(kube, manifest, manager="test")
    yield name
    await delete(kube, NAMESPACES, None, name)
