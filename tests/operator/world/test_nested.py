"""One user's deeply nested template keeps the operator from nothing."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from operator_cluster import FakeCluster
from operator_process import OperatorProcess, eventually

from rowen.kube import nesting


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """The test writes and reads it, too."""
    before = sys.getrecursionlimit()
    nesting.allow()
    yield
    sys.setrecursionlimit(before)


async def test_other_jobs_are_reconciled_beside_it(operator: OperatorProcess, cluster: FakeCluster) -> None:
    nested: Any = {}
    for _ in range(3000):
        nested = {"a": nested}
    spec = {"containers": [{"name": "main", "image": "none"}], "nested": nested}
    await cluster.create_job("deep", template={"spec": spec})
    try:
        await cluster.create_job("flat")
        await cluster.wait_condition("Running", "NotPlaced", name="flat")
        await eventually(operator.healthy)
    finally:
        await cluster.delete("offlinejobs/deep", "rowen.dev/v1alpha1")
