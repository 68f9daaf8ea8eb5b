"""The operator as a process, and a cluster that the test plays the rest of."""

from collections.abc import AsyncIterator
from pathlib import Path

import kr8s.asyncio
import pytest
from apiserver import ApiServer
from operator_cluster import FakeCluster
from operator_process import OperatorProcess, grant


@pytest.fixture
async def operator(api_server: ApiServer, kube: kr8s.asyncio.Api, tmp_path: Path) -> AsyncIterator[OperatorProcess]:
    """A running operator."""
    await grant(kube)
    log = tmp_path / "operator.log"
    with OperatorProcess(api_server, log) as process:
        yield process
    print(log.read_text())


@pytest.fixture
def cluster(kube: kr8s.asyncio.Api, namespace: str) -> FakeCluster:
    """Plays scheduler, kube-scheduler and kubelet in one namespace."""
    return FakeCluster(kube, namespace)
