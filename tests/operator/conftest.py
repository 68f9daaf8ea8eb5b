"""The operator as a process, and a cluster that the test plays the rest of."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from apiserver import ApiServer
from operator_cluster import FakeCluster
from operator_process import OperatorProcess, eventually, grant

from rowen.kube.client import Client


@pytest.fixture
async def operator(api_server: ApiServer, kube: Client, tmp_path: Path) -> AsyncIterator[OperatorProcess]:
    """A running operator."""
    await grant(kube)
    log = tmp_path / "operator.log"
    with OperatorProcess(api_server, log) as process:
        await eventually(process.healthy)
        yield process
    print(log.read_text())


@pytest.fixture
def cluster(kube: Client, namespace: str) -> FakeCluster:
    """Plays scheduler, kube-scheduler and kubelet in one namespace."""
    return FakeCluster(kube, namespace)
