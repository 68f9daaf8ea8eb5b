"""Whether a node is lost, or the scheduler was not listening: pass by pass, against a real API server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import generate_latest
from scheduler.builders import OVERDUE
from scheduler.stage import Stage, condition
from scheduler.steps import Frozen, Steps, Time, kept, placed
from scheduler.tap import Tap

from rowen.crds.names import API_VERSION, SCHEDULER_MANAGER
from rowen.kube.client import Client
from rowen.kube.errors import UnreachableError
from rowen.kube.kinds import OFFLINE_JOBS
from rowen.kube.objects import apply_status
from rowen.kube.timestamps import rfc3339
from rowen.scheduler.decision import Decision, decide
from rowen.scheduler.loop import Loop
from rowen.scheduler.policy import Policy

WITHIN = 32
"""Seconds in steps of two that a node may be silent: two more are beyond its lease and the grace, 33 s."""


@pytest.fixture
async def stage(kube: Client, namespace: str) -> AsyncIterator[Stage]:
    made = Stage(kube, namespace, Frozen())
    await made.alone()
    await made.service()
    yield made
    await made.clear()


@pytest.fixture(params=["heartbeats", "reports of the last release"])
def steps(request: pytest.FixtureRequest, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Steps:
    for module in (
        "rowen.scheduler.loop",
        "rowen.scheduler.world.cluster",
        "rowen.scheduler.world.keeping",
        "rowen.kube.informer",
    ):
        monkeypatch.setattr(f"{module}.time", Time(stage.clock))
    made = Steps(stage, Tap(stage.client))
    made.beating = request.param == "heartbeats"
    return made


@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 3600.0])
async def test_a_silent_node_is_lost_whatever_its_clock_says(steps: Steps, ahead: float) -> None:
    node = await steps.stage.node("a")
    (id_,) = await placed(steps, [node], "j", ahead=ahead)
    await steps.go(WITHIN)
    assert kept(await steps.job("j"), id_)
    await steps.go(2)
    lost = await steps.job("j")
    assert condition(lost, "Placed")["reason"] == "NodeLost"
    assert condition(lost, "Placed")["message"].endswith("lease ran out: last heartbeat 34 s ago")
    assert lost["evictions"] == 1
    second = await steps.stage.node("b")
    await steps.go(2, alive=[second])
    after = (await steps.job("j"))["assignment"]
    assert after["node"] == second
    assert after["id"] != id_


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
async def test_leases_are_renewed_by_the_schedulers_clock_and_no_status_is_written_for_it(
    steps: Steps, ahead: float
) -> None:
    node = await steps.stage.node("a")
    (id_,) = await placed(steps, [node], "j", ahead=ahead)
    await steps.go(20, alive=[node], ahead=ahead)
    steps.tap.calls.clear()
    for _ in range(6):
        await steps.go(6, alive=[node], ahead=ahead)
        assert kept(await steps.job("j"), id_)
        assert heard(steps, node) == steps.stage.clock()
    assert "PATCH offlinejobs" not in steps.tap.calls


def heard(steps: Steps, node: str) -> float | None:
    """When the scheduler heard the node last."""
    snapshot = steps.loop.cluster.snapshot(steps.stage.clock())
    return snapshot.nodes[node].heard


@pytest.mark.parametrize("gone", [False, True])
async def test_a_lease_that_was_renewed_by_a_clock_ahead_runs_out(steps: Steps, gone: bool) -> None:
    """Also that of a node that is no more, which a scheduler that has just been started knows nothing of."""
    node = await steps.stage.node("a")
    (id_,) = await placed(steps, [node], "j")
    await renew_ahead(steps.stage, 3600.0)
    if gone:
        await steps.stage.remove(node)
        steps.loop = steps.started()
        await steps.go(2)
    await steps.go(WITHIN)
    assert kept(await steps.job("j"), id_)
    await steps.go(2)
    assert condition(await steps.job("j"), "Placed")["reason"] == "NodeLost"


async def test_a_node_that_is_removed_has_its_lease_to_the_end(steps: Steps) -> None:
    node = await steps.stage.node("a")
    (id_,) = await placed(steps, [node], "j")
    await steps.go(30, alive=[node])
    await steps.stage.remove(node)
    await steps.go(WITHIN)
    assert kept(await steps.job("j"), id_)
    await steps.go(2)
    assert condition(await steps.job("j"), "Placed")["reason"] == "NodeLost"


async def test_a_lease_or_a_report_that_is_deleted_by_hand_costs_no_job(steps: Steps) -> None:
    node = await steps.stage.node("a")
    (id_,) = await placed(steps, [node], "j")
    for version, plural, namespace in (
        ("coordination.k8s.io/v1", "leases", steps.stage.namespace), (API_VERSION, "nodeharvests", None)
    ):  # fmt: skip
        await steps.go(40, alive=[node])
        await steps.stage.delete(version, f"{plural}/{node}", namespace)
        await steps.go(6)
        assert kept(await steps.job("j"), id_)
        await steps.stage.harvest(node)
    await steps.go(40, alive=[node])
    assert kept(await steps.job("j"), id_)


async def test_an_older_agent_in_the_place_of_one_that_renewed_a_lease_is_judged_by_its_reports(steps: Steps) -> None:
    node = await steps.stage.node("a")
    await steps.stage.beat(node)
    steps.beating = False
    (id_,) = await placed(steps, [node], "j")
    await steps.go(80, alive=[node])
    assert kept(await steps.job("j"), id_)
    await steps.go(WITHIN + 2)
    assert condition(await steps.job("j"), "Placed")["reason"] == "NodeLost"


async def renew_ahead(stage: Stage, seconds: float) -> None:
    """What a scheduler with a wrong clock would have written."""
    found = await stage.get_job("j")
    status = {key: found["status"][key] for key in ("assignment", "conditions", "explanation")}
    status["assignment"]["lease"]["renewTime"] = rfc3339(stage.clock() + seconds, "microseconds")
    meta = {key: found["metadata"][key] for key in ("name", "namespace", "uid")}
    manifest = {"apiVersion": API_VERSION, "kind": "OfflineJob", "metadata": meta, "status": status}
    await apply_status(stage.client, OFFLINE_JOBS, manifest, manager=SCHEDULER_MANAGER)


async def test_a_node_whose_clock_is_behind_gets_a_job_with_its_next_report(steps: Steps) -> None:
    node = await steps.stage.node("a")
    for beating in (False, steps.beating):
        steps.beating = beating
        await steps.sign(node, -3600.0)
    await steps.stage.job("j")
    await steps.go(4)
    waiting = await steps.job("j")
    assert "has been silent for" in waiting["explanation"]["message"]
    await steps.go(2, alive=[node], ahead=-3600.0)
    if steps.beating:
        # It is there, but what it reported last seems to be an hour old.
        assert "assignment" not in await steps.job("j")
        steps.beating = False
        await steps.go(2, alive=[node], ahead=-3600.0)
    assert (await steps.job("j"))["assignment"]["node"] == node


async def test_after_an_outage_nodes_have_a_lease_to_report(steps: Steps) -> None:
    node = await steps.stage.node("a")
    (id_,) = await placed(steps, [node], "j")
    steps.stage.clock.offset += 600.0
    await steps.go(WITHIN)
    assert kept(await steps.job("j"), id_)
    await steps.go(4, alive=[node])
    await steps.go(WITHIN)
    assert kept(await steps.job("j"), id_)
    await steps.go(2)
    assert condition(await steps.job("j"), "Placed")["reason"] == "NodeLost"


@pytest.mark.parametrize(("dead", "reason"), [(False, "Placed"), (True, "NodeLost")])
async def test_after_a_restart_nodes_have_a_lease_to_report(steps: Steps, dead: bool, reason: str) -> None:
    node = await steps.stage.node("a")
    (id_,) = await placed(steps, [node], "j")
    steps.stage.clock.offset += 600.0
    steps.loop = steps.started()
    await steps.go(WITHIN)
    assert kept(await steps.job("j"), id_)
    await steps.go(4, alive=[] if dead else [node])
    assert condition(await steps.job("j"), "Placed")["reason"] == reason


@pytest.mark.parametrize("seconds", [1.0, 6.0, 12.0])
async def test_a_dead_node_is_lost_however_long_a_pass_computes(
    steps: Steps, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    node = await steps.stage.node("a")
    await placed(steps, [node], "j")

    def slow(*arguments: Any) -> Decision:
        steps.stage.clock.offset += seconds
        return decide(*arguments)

    monkeypatch.setattr("rowen.scheduler.loop.decide", slow)
    await steps.go(WITHIN - 2)
    assert await steps.left() == [node]
    await steps.go(8)
    assert condition(await steps.job("j"), "Placed")["reason"] == "NodeLost"


async def test_a_loss_waits_for_a_listing_and_listings_are_rare(steps: Steps) -> None:
    nodes = [await steps.stage.node(name, slots=1) for name in ("a", "b", "c", "d")]
    await placed(steps, nodes, "j", "k", "l", "m")
    await steps.go(2, alive=nodes[1:])
    await steps.go(WITHIN, alive=nodes[2:])
    assert await steps.left() == nodes[1:]
    await steps.go(4, alive=nodes[2:])
    assert await steps.left() == nodes[1:], "it is overdue, and the last listing is too recent for another"
    await steps.go(2, alive=nodes[2:])
    assert await steps.left() == nodes[2:]


async def test_a_listing_that_fails_holds_back_the_loss_and_nothing_else(steps: Steps) -> None:
    nodes = [await steps.stage.node(name, slots=1) for name in ("a", "b", "c")]
    await placed(steps, nodes, "j", "k", "l")
    steps.tap.errors["GET pods"] = UnreachableError("slow")
    await steps.go(WITHIN, alive=nodes[1:])
    await steps.stage.job("late")
    await steps.go(2, alive=nodes[1:])
    assert steps.loop.now() - (heard(steps, nodes[0]) or 0.0) > OVERDUE
    assert await steps.left() == nodes
    assert condition(await steps.job("late"), "Placed")["status"] == "False"
    steps.tap.errors.clear()
    await steps.go(6, alive=nodes[1:])
    assert await steps.left() == nodes[1:]


@pytest.mark.parametrize("stored", [False, True])
async def test_a_withdrawal_without_an_answer_begins_one_backoff(steps: Steps, stored: bool) -> None:
    """Whether it has arrived is not known; it is written again, and counts once."""
    node = await steps.stage.node("a")
    await placed(steps, [node], "j")
    await steps.go(WITHIN)
    (steps.tap.lost if stored else steps.tap.errors)["PATCH offlinejobs"] = UnreachableError("lost")
    await steps.go(2)
    (begun,) = steps.loop.history.backoffs.values()
    assert begun.count == 1
    await steps.go(8)
    steps.tap.errors.clear()
    steps.tap.lost.clear()
    await steps.go(20)
    assert await steps.left() == []
    assert list(steps.loop.history.backoffs.values()) == [begun]


async def test_a_node_that_was_lost_before_is_listed_anew_when_it_falls_silent_again(steps: Steps) -> None:
    node = await steps.stage.node("a")
    await placed(steps, [node], "j")
    await steps.go(WITHIN + 2)
    assert await steps.left() == []
    await placed(steps, [node], "k")
    await steps.go(WITHIN)
    steps.tap.calls.clear()
    await steps.go(2)
    assert await steps.left() == []
    assert steps.tap.calls.count("GET pods") == 2, "the test's own and the loop's"


async def test_most_nodes_at_once_are_waited_for_and_then_lost(steps: Steps) -> None:
    steps.policy = Policy(disruption_seconds=60.0)
    steps.loop = steps.started()
    nodes = [await steps.stage.node(name, slots=1) for name in ("a", "b", "c")]
    await placed(steps, nodes, "j", "k", "l")
    await steps.go(60, alive=nodes[:1])
    waiting = [condition(await steps.job(name), "Placed")["message"] for name in steps.jobs]
    assert sum("the node is silent, as most nodes are" in message for message in waiting) == 2
    assert "rowen_nodes_waited_for 2.0" in told_by(steps.loop)
    await steps.go(WITHIN, alive=nodes[:1])
    assert await steps.left() == nodes
    await steps.go(2, alive=nodes[:1])
    assert await steps.left() == nodes[:1]
    assert "rowen_nodes_waited_for 0.0" in told_by(steps.loop)


async def test_nodes_that_are_waited_for_keep_their_jobs_when_they_are_heard(steps: Steps) -> None:
    nodes = [await steps.stage.node(name, slots=1) for name in ("a", "b")]
    ids = await placed(steps, nodes, "j", "k")
    await steps.go(100)
    await steps.go(2, alive=nodes)
    after = [await steps.job(name) for name in steps.jobs]
    assert [kept(status, id_) for status, id_ in zip(after, ids, strict=True)] == [True, True]
    assert not any("silent" in condition(status, "Placed")["message"] for status in after)


def told_by(loop: Loop) -> str:
    return generate_latest(loop.metrics.registry).decode()
