import time

import pytest
from pools import MIB, owners

from rowen.crds.harvest.device_detail import DeviceDetail
from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.demo.show.world import DeviceRecord, Observer, World, unix_time
from rowen.demo.verdict.memory import Reclaimed
from rowen.demo.verdict.riding import Ridden, RideReading
from rowen.demo.verdict.timeline import ServedRequest, Transition

SINCE = unix_time("2026-01-01T10:00:00Z")


def service(status="True", since="2026-01-01T09:00:00Z"):
    condition = {"type": "Ready", "status": status, "reason": "Serving", "lastTransitionTime": since}
    return {"status": {"conditions": [condition]}}


def pod(uid="a", *, ready="True", restarts=0):
    return {
        "metadata": {"uid": uid, "name": f"chat-{uid}"},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"restartCount": restarts}],
        },
    }


def test_a_service_that_stays_ready_has_no_lapse():
    world = World(since=SINCE)
    for _ in range(3):
        world.see_service(service(), [pod()])
    assert world.observations == 3
    assert world.lapses == []


@pytest.mark.parametrize(
    ("reading", "lapse"),
    [
        ((None, [pod()]), "gone"),
        (({"status": {}}, [pod()]), "no Ready condition"),
        ((service("False"), [pod()]), "Ready=False"),
        ((service("True", "2026-01-01T10:00:05Z"), [pod()]), "again only since"),
        ((service(), [pod("b")]), "pod a is gone"),
        ((service(), [pod(restarts=1)]), "restarted"),
        ((service(), [pod(ready="False")]), "not Ready"),
    ],
)
def test_each_lapse_is_noted_once(reading, lapse):
    world = World(since=SINCE)
    world.see_service(service(), [pod()])
    for _ in range(2):
        world.see_service(*reading)
    assert len(world.lapses) == 1
    assert lapse in world.lapses[0]


def test_the_agents_repeated_answers_count_once():
    record = DeviceRecord(harvest=None)
    for shift in (0.0, 0.0004, -0.0004):
        record.see(
            [Transition(time_ + shift, None, None, None, 1) for time_ in (5.0, 6.0)],
            [ServedRequest(7.0 + shift, 0.05, 0.02, 1, True), ServedRequest(7.0 + shift, 0.051, 0.02, 0, True)],
        )
    assert len(record.transitions) == 2
    assert len(record.requests) == 2


def test_a_pending_transition_is_completed_later():
    record = DeviceRecord(harvest=None)
    record.see([Transition(5.0, None, None, None, 1)], [])
    record.see([Transition(5.0, 5.001, 6.0, 0.001, 1)], [])
    assert [transition.opened for transition in record.transitions.values()] == [6.0]


def test_an_unknown_job_is_missing():
    assert World(since=time.time()).job_result("nightly").state == "missing"


def test_presence_of_tenants_is_kept_over_time():
    record = DeviceRecord(harvest=None)
    for now, attached in ((1.0, True), (2.0, True), (3.0, False), (4.0, True), (60.0, True), (61.0, True)):
        record.see_tenants(attached, now)
    assert record.present == [(1.0, 2.0), (4.0, 4.0), (60.0, 61.0)]


def harvest(**fields):
    return DeviceDetail.from_wire({
        "id": "cpu1", "type": "cpu", "memoryBytes": 2**33, "harvestable": True, "gateOpen": True, "idleFraction": 0.6,
        "harvestedFraction": 0.5, "preemptions": 0, **fields,
    })  # fmt: skip


def test_each_reading_of_a_pool_is_kept():
    record = DeviceRecord(harvest())
    record.see_harvest(harvest(), Reclaimed(), Ridden(), 1.0)
    assert record.pool == []
    for now, offline in ((2.0, 5), (3.0, 7)):
        record.see_harvest(harvest(pool=owners(offline=offline).to_wire()), Reclaimed(1, MIB), Ridden(), now)
    assert [(reading.at, reading.owners.offline_bytes // MIB) for reading in record.pool] == [(2.0, 5), (3.0, 7)]
    assert record.pool[0].reclaimed == Reclaimed(1, MIB)


def tenant(job, mode="CoServe", attached=True):
    return {"pod": f"default/{job}-0", "job": job, "mode": mode, "attached": attached}


@pytest.mark.parametrize(("mode", "behind"), [("Preempt", True), ("CoServe", False)])
def test_who_rides_is_not_behind_the_gate(mode, behind):
    record = DeviceRecord(harvest())
    record.see_harvest(harvest(tenants=[tenant("tune", mode)]), Reclaimed(), Ridden(), 1.0)
    assert record.attached is behind


def test_what_rode_is_kept_while_an_engine_takes_jobs_in():
    record = DeviceRecord(harvest())
    record.see_harvest(harvest(), Reclaimed(), Ridden(), 1.0)
    assert record.rides == []
    record.see_harvest(harvest(coServing={"seats": 8}), Reclaimed(), Ridden(forward=5), 2.0)
    assert record.rides == [RideReading(2.0, Ridden(forward=5))]


def test_jobs_that_are_joined_with_an_engine_ride():
    tenants = [tenant("tune"), tenant("rows", attached=False), tenant("other", "Preempt")]
    world = World(devices={("node", "cpu1"): DeviceRecord(harvest(tenants=tenants))})
    assert world.riding == {"tune"}


def job(**placed):
    held = {"id": "a", "node": "n", "devices": ["cpu1"], "predictedFraction": 0.5, "time": "2026-01-01T00:00:00Z"}
    return OfflineJobStatus.from_wire({"assignment": {**held, "lease": {"durationSeconds": 30}, **placed}})


def test_the_mode_of_each_place_is_counted():
    world = World()
    for status in (OfflineJobStatus(), job(mode="CoServe"), job(mode="CoServe"), job()):
        world.see_job("tune", status)
    assert world.modes == {"tune": {"CoServe": 2, "Preempt": 1}}


ANSWERS = {
    "v1/devices": {"devices": [harvest(pool=owners(offline=5).to_wire(), coServing={"seats": 8}).to_wire()]},
    "v1/devices/cpu1/timeline": {"transitions": [], "requests": []},
}
METRICS = """\
rowen_reclaims_total{device="cpu1",node="node"} 2.0
rowen_reclaimed_bytes_total{device="cpu1",node="node"} 4.194304e+06
rowen_ride_tokens_total{device="cpu1",kind="rows",node="node"} 7.0
"""


class Agents:
    """A cluster with one agent and nothing else."""

    async def rowen(self, plural, name):
        return {"status": job(mode="CoServe").to_wire()} if plural == "offlinejobs" else None

    async def pods(self, selector="", namespace=None):
        return [] if namespace is None else [pod() | {"spec": {"nodeName": "node"}}]

    async def pod_get(self, namespace, name, port, path):
        return ANSWERS[path.partition("?")[0]]

    async def pod_text(self, namespace, name, port, path):
        assert path == "metrics"
        return METRICS


async def test_the_observer_reads_the_pool_and_what_was_taken():
    observer = Observer(Agents(), "chat", ())
    await observer.observe()
    (found,) = observer.world.devices["node", "cpu1"].pool
    assert found.owners == owners(offline=5)
    assert found.reclaimed == Reclaimed(2, 4 * MIB)


async def test_the_observer_reads_what_rode_and_in_which_mode_jobs_are():
    observer = Observer(Agents(), "chat", ("tune",))
    await observer.observe()
    (found,) = observer.world.devices["node", "cpu1"].rides
    assert found.ridden == Ridden(rows=7)
    assert observer.world.modes == {"tune": {"CoServe": 1}}
