"""What a service waits for, by what the API server says."""

import pytest

from rowen.demo.cluster.readiness import is_rolled_out, seats_state, service_state


def service(status="True", generation=2):
    condition = {
        "type": "Ready", "status": status, "reason": "AllReady", "message": "1 of 1",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return {"metadata": {"generation": generation}, "status": {"conditions": [condition]}}


def engine(*, followed="2", seen=5, **status):
    """A Deployment of generation 5."""
    return {
        "metadata": {"generation": 5, "annotations": {"rowen.dev/generation": followed}},
        "spec": {"replicas": 1},
        "status": {"observedGeneration": seen, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, **status},
    }


@pytest.mark.parametrize(
    ("workload", "done"),
    [
        (engine(), True),
        (engine(followed="1"), False),
        (engine(seen=4), False),
        (engine(updatedReplicas=0), False),
        (engine(readyReplicas=0), False),
        (engine(replicas=2), False),
        ({"metadata": {"generation": 1}, "spec": {"replicas": 1}}, False),
    ],
)
def test_an_engine_is_replaced_when_no_pod_of_before_is_left(workload, done):
    assert is_rolled_out(workload, 2) is done


class FakeCluster:
    """Knows an OnlineService, its Deployment and NodeHarvests."""

    namespace = "default"

    def __init__(self, service=None, engine=None, devices=()):
        self.service, self.engine, self.devices = service, engine, devices

    async def rowen(self, plural, name):
        assert (plural, name) == ("onlineservices", "chat")
        return self.service

    async def find(self, path):
        assert path == "/apis/apps/v1/namespaces/default/deployments/chat"
        return self.engine

    async def items(self, path):
        assert path == "/apis/rowen.dev/v1alpha1/nodeharvests"
        return [{"metadata": {"name": "new"}}, {"status": {"devices": list(self.devices)}}]


@pytest.mark.parametrize(
    ("cluster", "state"),
    [
        (FakeCluster(), "not there yet"),
        (FakeCluster({"metadata": {"generation": 1}}), "not reconciled yet"),
        (FakeCluster(service("False"), engine()), "AllReady 1 of 1"),
        (FakeCluster(service()), "its engine is being replaced"),
        (FakeCluster(service(), engine(followed="1")), "its engine is being replaced"),
        (FakeCluster(service(), engine()), ""),
    ],
)
async def test_a_service_is_ready_with_the_engine_of_its_present_spec(cluster, state):
    assert await service_state(cluster, "chat") == state


def device(*, service="chat", namespace="default", **fields):
    return {
        "id": "cpu1", "type": "cpu", "memoryBytes": 1, "harvestable": True, "gateOpen": True, "idleFraction": 1.0,
        "harvestedFraction": 0.0, "preemptions": 0, "online": {"pod": f"{namespace}/p", "service": service}, **fields,
    }  # fmt: skip


SEATS = {"coServing": {"seats": 8}}


@pytest.mark.parametrize(
    ("devices", "state"),
    [
        ([], "its engine takes no jobs in yet"),
        ([device()], "its engine takes no jobs in yet"),
        ([device(service="other", **SEATS)], "its engine takes no jobs in yet"),
        ([device(namespace="other", **SEATS)], "its engine takes no jobs in yet"),
        ([device(coServing={"seats": 8, "ended": "it failed"})], "nothing rides in its engine any more: it failed"),
        ([device(service="other"), device(**SEATS)], ""),
    ],
)
async def test_jobs_come_when_the_scheduler_may_see_that_the_engine_takes_them_in(devices, state):
    assert await seats_state(FakeCluster(devices=devices), "chat") == state
