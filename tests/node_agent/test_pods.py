"""Which pod is on which device."""

import pytest

from rowen.crds.names import HARVEST_RESOURCE, ONLINE_RESOURCE
from rowen.node_agent.kubelet.pods import (
    PodView,
    placements,
    pod_view,
    preferred_devices,
    preferred_slots,
    telling_devices,
)

HOLDERS = {
    ONLINE_RESOURCE: {"cpu1": ("shop", "chat-0")},
    HARVEST_RESOURCE: {"cpu1-1": ("lab", "b"), "cpu1-0": ("lab", "a"), "cpu0-0": ("lab", "c")},
}
CHAT = PodView("shop", "chat-0", service="chat")


def test_pods_are_found_by_what_they_hold():
    found = placements("cpu1", HOLDERS, [CHAT, PodView("lab", "a", job="job-a")])
    assert found.online == CHAT
    assert [(slot, pod.name, pod.job) for slot, pod in found.slots] == [(0, "a", "job-a"), (1, "b", None)]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(phase):
    found = placements("cpu1", HOLDERS, [PodView("shop", "chat-0", phase=phase), PodView("lab", "a", phase=phase)])
    assert found.online is None
    assert [pod.name for _, pod in found.slots] == ["b"]


def test_pod_view():
    pod = {
        "metadata": {
            "namespace": "lab",
            "name": "a",
            "labels": {"rowen.dev/job": "tune"},
            "annotations": {"rowen.dev/devices": "cpu1,cpu2"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "status": {"phase": "Pending"},
    }
    view = pod_view(pod)
    assert (view.job, view.service, view.devices, view.phase) == ("tune", None, ("cpu1", "cpu2"), "Pending")
    assert pod_view({"metadata": {"namespace": "a", "name": "b"}}).phase == "Pending"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (None, (0.9, 12)),
        ({}, (0.9, 12)),
        ({"rowen.dev/harvest-memory": '{"pressureThreshold":0.75,"targetReclaimsPerHour":30}'}, (0.75, 30)),
        ({"rowen.dev/harvest-memory": '{"targetReclaimsPerHour":30,"ofANewerOperator":1}'}, (0.9, 30)),
        ({"rowen.dev/harvest-memory": '{"pressureThreshold":0.75,"targetReclaimsPerHour":0}'}, (0.9, 12)),
        ({"rowen.dev/harvest-memory": "many"}, (0.9, 12)),
        ({"rowen.dev/harvest-memory": "[]"}, (0.9, 12)),
    ],
)
def test_what_a_service_asks_for_in_memory(annotations, expected):
    view = pod_view({"metadata": {"namespace": "shop", "name": "chat-0", "annotations": annotations}})
    assert (view.memory.pressure_threshold, view.memory.target_reclaims_per_hour) == expected


def waiting(name, created, *devices):
    return PodView("lab", name, phase="Pending", created=created, devices=devices)


@pytest.mark.parametrize(
    ("pods", "required", "size", "expected"),
    [
        ([], [], 1, ["cpu0-0"]),
        ([waiting("a", "2", "cpu1")], [], 1, ["cpu1-0"]),
        ([waiting("a", "2", "cpu1"), waiting("b", "1", "cpu2")], [], 1, ["cpu2-1"]),
        ([waiting("a", "2", "cpu1", "cpu2")], [], 2, ["cpu1-0", "cpu2-1"]),
        ([waiting("a", "1", "cpu2"), waiting("b", "2", "cpu1", "cpu2")], [], 2, ["cpu1-0", "cpu2-1"]),
        ([], [], 2, ["cpu0-0", "cpu1-0"]),
        ([], [], 4, ["cpu0-0", "cpu1-0", "cpu2-1", "cpu1-1"]),
        ([waiting("a", "2", "cpu1", "cpu2")], ["cpu1-1"], 2, ["cpu1-1", "cpu2-1"]),
        ([waiting("a", "2", "cpu1")], ["cpu2-1"], 1, ["cpu2-1"]),
        ([waiting("a", "2", "gone")], [], 1, ["cpu0-0"]),
    ],
)
def test_preferred_slots(pods, required, size, expected):
    assert preferred_slots(["cpu1-1", "cpu1-0", "cpu0-0", "cpu2-1"], required, size, pods) == expected


@pytest.mark.parametrize(
    ("available", "required", "size", "expected"),
    [
        # The kind that has the fewest to spare; of a kind by their names.
        (["f1", "f0", "s0", "s1", "s2"], [], 1, ["f0"]),
        (["f1", "f0", "s0", "s1", "s2"], [], 2, ["f0", "f1"]),
        (["f1", "f0", "s2", "s1", "s0"], [], 3, ["s0", "s1", "s2"]),
        # Not all of one kind where there is no other way.
        (["f0", "s0"], [], 2, ["f0", "s0"]),
        # Like what it has already.
        (["f0", "f1", "s0", "s1", "s2"], ["s1"], 2, ["s1", "s0"]),
        (["f0", "f1"], ["f1", "f0"], 2, ["f1", "f0"]),
        (["new", "f0"], [], 1, ["f0"]),
    ],
)
def test_an_engine_gets_devices_that_are_alike(available, required, size, expected):
    kinds = {"f0": "fast", "f1": "fast", "s0": "slow", "s1": "slow", "s2": "slow"}
    assert preferred_devices(available, required, size, kinds) == expected


def test_an_engines_first_device_tells_its_requests():
    other = PodView("shop", "chat-1", service="chat")
    engines = {"a": CHAT, "b": None, "c": other, "d": CHAT, "e": None, "f": other}
    assert telling_devices(engines) == {"a", "b", "c", "e"}


def test_requests_of_each_engine_of_a_pod_count():
    containers = [container(online="1"), container("1Gi"), container(online="1")]
    metadata = {"namespace": "shop", "name": "chat-2"}
    both = pod_view({"metadata": metadata, "spec": {"containers": containers}})
    one = pod_view({"metadata": metadata, "spec": {"containers": containers[:2]}})
    assert telling_devices({"a": both, "b": both}) == {"a", "b"}
    assert telling_devices({"a": one, "b": one}) == {"a"}


def container(request=None, limit=None, *, pool=False, **devices):
    resources = {"requests": {"memory": request} if request else {}, "limits": {"memory": limit} if limit else {}}
    for name, count in devices.items():
        resources["limits"][f"rowen.dev/{name}"] = count
    return {"name": "c", "resources": resources, "env": [{"name": "ROWEN_POOL_BYTES", "value": "1"}] if pool else []}


@pytest.mark.parametrize(
    ("containers", "fixed", "pool"),
    [
        ([], 0, 0),
        ([{"name": "c"}], 0, 0),
        ([container("1Gi", "3Gi", pool=True, online="1")], 2**30, 2 * 2**30),
        ([container("1Gi", "3Gi", pool=True, harvest="1"), container("1M", "1G")], 2**30 + 10**9, 2 * 2**30),
        ([container("1Gi", "3Gi", pool=True, online="1"), container("many")], 2**30, 2 * 2**30),
        ([container("3000", "9000", pool=True, harvest="3")], 1000, 2000),
        ([container("3001", "9000", pool=True, harvest="3")], 1001, 1999),
        ([container("1000", "3000", online="2"), container("1000", "1001")], 2001, 0),
    ],
)
def test_memory_on_each_device(containers, fixed, pool):
    view = pod_view({"metadata": {"namespace": "a", "name": "b"}, "spec": {"containers": containers}})
    assert (view.fixed_bytes, view.pool_bytes) == (fixed, pool)
