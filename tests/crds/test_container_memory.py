"""What containers have in memory for themselves, in all, and of a pool."""

import pytest

from rowen.crds.pod.container_memory import ContainerMemory, memory_of_containers

GI = 2**30
POOL = ("PATH", "ROWEN_POOL_BYTES")


def container(request=None, limit=None, env=None, **devices):
    resources = {"requests": {"memory": request} if request else None, "limits": {"memory": limit} if limit else {}}
    for name, count in devices.items():
        resources["limits"][f"rowen.dev/{name}"] = count
    return {"name": "c", "resources": resources, "env": env and [{"name": name, "value": "1"} for name in env]}


@pytest.mark.parametrize(
    ("raw", "own", "most", "pool"),
    [
        ({"name": "c"}, None, None, 0),
        ({"name": "c", "resources": None, "env": [{"name": "ROWEN_POOL_BYTES"}]}, None, None, 0),
        (container("1Gi", "3Gi", POOL, online="1"), GI, 3 * GI, 2 * GI),
        (container("1Gi", "3Gi", POOL, harvest="2"), GI, 3 * GI, 2 * GI),
        (container("1Gi", "3Gi", ["PATH"], online="1"), 3 * GI, 3 * GI, 0),
        (container("1Gi", "3Gi", online="1"), 3 * GI, 3 * GI, 0),
        (container("1Gi", "3Gi", POOL), 3 * GI, 3 * GI, 0),
        (container("1Gi", None, POOL, online="1"), GI, GI, 0),
        (container("1Gi"), GI, GI, 0),
        (container(None, "1Gi", POOL, harvest="1"), GI, GI, 0),
        (container("0", "1Gi", POOL, harvest="1"), 0, GI, GI),
        (container("2Gi", "1Gi", POOL, harvest="1"), 2 * GI, GI, 0),
        (container("128974848000m", "1e9", POOL, harvest="1"), 128974848, 10**9, 10**9 - 128974848),
        (container("many", "9000", POOL, harvest="1"), None, 9000, 0),
        (container("9000", "many", POOL, harvest="1"), 9000, None, 0),
        (container("many", "9000", POOL, harvest="x"), 9000, 9000, 0),
    ],
)
def test_a_container(raw, own, most, pool):
    (found,) = memory_of_containers({"containers": [raw]})
    assert (found.own, found.most, found.pool) == (own, most, pool)


@pytest.mark.parametrize(
    ("devices", "count"), [({}, 0), ({"online": "1"}, 1), ({"harvest": "3"}, 3), ({"online": ""}, 0)]
)
def test_devices_of_a_container(devices, count):
    (found,) = memory_of_containers({"containers": [container("1", **devices)]})
    assert found.devices == count


def test_of_the_init_containers_sidecars_count_alone():
    sidecar = {**container(None, "1Gi"), "restartPolicy": "Always"}
    once = {**container(None, "8Gi"), "restartPolicy": "OnFailure"}
    spec = {"containers": [container("2Gi")], "initContainers": [container(None, "8Gi"), sidecar, once]}
    assert memory_of_containers(spec) == [ContainerMemory(2 * GI, 2 * GI, 0), ContainerMemory(GI, GI, 0)]
    assert memory_of_containers({}) == []
