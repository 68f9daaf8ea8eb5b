"""A real API server with etcd for integration tests: no kubelet, no scheduler, RBAC on, Rowen's CRDs loaded.

The tests play kubelet and kube-scheduler by writing pod status. `ApiServer.kubeconfig_for` makes clients of any
user and group, so that a component can be run with the rights of its own ClusterRole.
"""

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from manifests import apply

from rowen.cluster.bare.server import BINARIES, ApiServer, available, end, free_port, running, start
from rowen.kube.client import Client
from rowen.kube.kinds import NAMESPACES
from rowen.kube.objects import delete

__all__ = ["BINARIES", "ApiServer", "api_server", "controller_manager", "free_port", "kube", "namespace"]


@pytest.fixture(scope="session")
def api_server() -> Iterator[ApiServer]:
    """An API server for the whole test session; tests keep apart by namespace."""
    if not available():
        pytest.skip(f"no etcd and kube-apiserver in {BINARIES}: `make tools` makes them")
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def controller_manager(api_server: ApiServer) -> Iterator[None]:
    """The garbage collector and the Deployment controllers, for tests of what follows from owner references."""
    if not (BINARIES / "kube-controller-manager").exists():
        pytest.skip(f"no kube-controller-manager in {BINARIES}")
    process = start(
        api_server.authority.folder, "kube-controller-manager",
        f"--kubeconfig={api_server.kubeconfig}", "--leader-elect=false", "--secure-port=0",
        "--controllers=garbage-collector-controller,deployment-controller,replicaset-controller,namespace-controller",
    )  # fmt: skip
    try:
        yield
    finally:
        end(process)


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
