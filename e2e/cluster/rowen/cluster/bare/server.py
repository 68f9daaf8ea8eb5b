"""A real API server with etcd on this machine's loopback, RBAC on, Rowen's CRDs loaded."""

import asyncio
import contextlib
import random
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import yaml

from rowen.cluster.bare.authority import Authority
from rowen.cluster.bare.definitions import load_definitions
from rowen.cluster.errors import ClusterError
from rowen.kube.client import Client, open_client

BINARIES = Path("/var/lib/rowen-dev/bin")
START_SECONDS = 90.0
_STOP_SECONDS = 10.0
_PORTS = range(12000, 30000)
"""Below those of Kubernetes' services and of connections (`ip_local_port_range`, from 32768 on by default)."""
_TRIES = 50

Process = subprocess.Popen[bytes]


class ApiServer:
    """A running API server. Whose certificate has the group `system:masters` may do everything."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.authority.issue("server", "kube-apiserver", server=True)
        self.authority.issue("admin", "admin", ["system:masters"])
        self._port = free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = _write_kubeconfig(folder, "admin", self.url)
        """Administrator's kubeconfig."""
        etcd = f"http://127.0.0.1:{free_port()}"
        self.etcd = _start_etcd(folder, etcd)
        self._etcd_url = etcd
        self.process = _start_server(folder, etcd, self._port)

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig whose client is that user, e.g. `system:serviceaccount:rowen-system:operator`."""
        file = f"user-{uuid.uuid4().hex[:8]}"
        self.authority.issue(file, user, groups)
        return _write_kubeconfig(self.authority.folder, file, self.url)

    async def open(self, kubeconfig: Path | None = None) -> Client:
        """A client; the administrator's by default. It has to be closed."""
        return await open_client(str(kubeconfig or self.kubeconfig))

    def await_ready(self) -> None:
        """Waits until it answers. Raises `ClusterError` with the ends of the logs."""
        folder = self.authority.folder
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
        deadline = time.monotonic() + START_SECONDS
        with httpx.Client(verify=context, trust_env=False, timeout=2) as client:
            while time.monotonic() < deadline:
                if any(process.poll() is not None for process in (self.etcd, self.process)):
                    break
                with contextlib.suppress(httpx.TransportError):
                    if client.get(f"{self.url}/readyz").status_code == 200:
                        return
                time.sleep(0.1)
        logs = "\n".join(f"{log.name}:\n{log.read_text()[-2000:]}" for log in folder.glob("*.log"))
        raise ClusterError(f"the API server did not become ready\n{logs}")

    def kill(self) -> None:
        """The API server dies; etcd stays."""
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        """The API server at the same address, on what etcd has kept; it may not answer yet."""
        self.process = _start_server(self.authority.folder, self._etcd_url, self._port)

    def stop(self) -> None:
        """Ends both."""
        for process in (self.process, self.etcd):
            end(process)


@contextlib.contextmanager
def running() -> Iterator[ApiServer]:
    """An API server that answers and knows Rowen's kinds; in the end its processes and files are gone.

    Raises `ClusterError` where it cannot be had.
    """
    if not available():
        raise ClusterError(f"no etcd and kube-apiserver in {BINARIES}: `make tools` makes them")
    folder = Path(tempfile.mkdtemp(prefix="rowen-apiserver-"))
    try:
        server = ApiServer(folder)
        try:
            server.await_ready()
            asyncio.run(_load(server))
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _load(server: ApiServer) -> None:
    async with await server.open() as client:
        await load_definitions(client, START_SECONDS)


def available() -> bool:
    """Whether the programs have been built."""
    return all((BINARIES / program).exists() for program in ("etcd", "kube-apiserver"))


def start(folder: Path, program: str, *arguments: str) -> Process:
    """Starts one of the programs of `BINARIES`, with its log in the folder."""
    with (folder / f"{program}.log").open("ab") as log:
        return subprocess.Popen([BINARIES / program, *arguments], stdout=log, stderr=log)


def end(process: Process) -> None:
    """Ends a process, by force where it takes too long."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A TCP port that nobody listens on now.

    None that the kernel would choose: it gives those to connections, at any time until a server takes the port.
    Raises `ClusterError` where all that were tried are taken.
    """
    for port in random.SystemRandom().sample(_PORTS, _TRIES):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("", port))
            return port
    raise ClusterError(f"{_TRIES} TCP ports of {_PORTS.start} to {_PORTS.stop - 1} that were tried are all taken")


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


def _start_etcd(folder: Path, client_url: str) -> Process:
    peer = f"http://127.0.0.1:{free_port()}"
    return start(
        folder, "etcd", "--unsafe-no-fsync", "--log-level=error",
        f"--data-dir={folder / 'etcd'}", f"--listen-client-urls={client_url}", f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
    )  # fmt: skip


def _start_server(folder: Path, etcd: str, port: int) -> Process:
    return start(
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
