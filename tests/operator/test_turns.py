"""Figures are written in turn: one object's not too often, and all together no more than the API server bears."""

from collections.abc import Mapping
from typing import Any

import pytest
from operator_builders import GAP_SECONDS, IMAGE, NOW, START_DEADLINE_SECONDS, condition, job_manifest
from prometheus_client import CollectorRegistry

from rowen.operator.decision import Note
from rowen.operator.metrics import Metrics
from rowen.operator.reconciler import Reconciler
from rowen.operator.turns import Turns
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.snapshots import World, groups
from rowen.operator.world.store import Key, Store


class Writing(Cluster):
    """A cluster that takes every status."""

    def __init__(self) -> None:
        pass

    async def write_status(self, owner: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
        metadata = {**owner["metadata"], "resourceVersion": str(int(owner["metadata"]["resourceVersion"]) + 1)}
        return {**owner, "metadata": metadata, "status": dict(status)}

    async def post(self, owner: Mapping[str, Any], note: Note, now: float) -> None:
        pass


def key(number: int) -> Key:
    return Key("OfflineJob", "team", f"job-{number}")


def test_what_was_never_written_is_written_at_once() -> None:
    assert Turns().wait_seconds(key(0), 1e9) <= 0.0


@pytest.mark.parametrize(("objects", "period"), [(1, 10.0), (250, 10.0), (500, 20.0), (1000, 40.0)])
def test_the_more_objects_the_longer_each_waits(objects: int, period: float) -> None:
    turns = Turns()
    for number in range(objects):
        turns.wrote(key(number), 100.0)
    assert turns.period_seconds() == period
    assert turns.wait_seconds(key(0), 103.0) == period - 3.0
    assert turns.wait_seconds(key(0), 100.0 + period) == 0.0


def test_what_has_ended_takes_no_turn() -> None:
    turns = Turns()
    for number in range(1000):
        turns.wrote(key(number), 100.0)
    for number in range(750):
        turns.ended(key(number))
    turns.ended(key(0))
    assert turns.period_seconds() == 10.0
    assert turns.wait_seconds(key(999), 101.0) == 9.0


async def test_a_job_has_its_turn_until_it_has_ended() -> None:
    store, job = Store(groups, lambda: NOW), Key("OfflineJob", "team", "job")
    world = World(store, IMAGE, START_DEADLINE_SECONDS, GAP_SECONDS, lambda: NOW)
    reconciler = Reconciler(store, world, Writing(), Metrics(CollectorRegistry()), lambda: NOW)
    store.put("OfflineJob", job_manifest())
    await reconciler.reconcile(job)
    stored = store.get(job)
    assert stored is not None
    assert stored["metadata"]["resourceVersion"] == "2"
    assert reconciler._turns.wait_seconds(job, NOW) == 10.0
    conditions = [condition("Finished", "True", "Completed")]
    store.put("OfflineJob", job_manifest(status={"conditions": conditions}, resourceVersion="9"))
    await reconciler.reconcile(job)
    assert reconciler._turns.wait_seconds(job, NOW) == 0.0
