"""The scheduler against a real API server."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from scheduler.stage import Clock, Stage, condition

from rowen.kube.client import Client
from rowen.scheduler.monitor.backoff import Backoff
from rowen.scheduler.policy import Policy
from rowen.scheduler.world.store import Store

POLICY = Policy(dwell_seconds=0.0, monitor_window_seconds=20.0, shortfall_seconds=20.0)


@pytest.fixture
async def stage(kube: Client, namespace: str) -> AsyncIterator[Stage]:
    made = Stage(kube, namespace, Clock())
    await made.service()
    yield made
    await made.clear()


def placed_on(*nodes: str) -> Any:
    return lambda status: status.get("assignment", {}).get("node") in nodes


async def test_a_job_gets_an_assignment_with_its_reasons(stage: Stage) -> None:
    node = await stage.node("a")
    async with stage.scheduler(POLICY):
        await stage.tuning("j", sla={"throughputFraction": 0.3})
        status = (await stage.await_job("j", placed_on(node)))["status"]
        assert status["assignment"]["devices"] == ["cpu0"]
        assert status["assignment"]["predictedFraction"] == 0.8
        assert status["assignment"]["lease"]["durationSeconds"] == POLICY.lease_seconds
        assert condition(status, "Placed")["reason"] == "Placed"
        assert condition(status, "Admitted")["reason"] == "Profiling"
        assert condition(status, "SLAMet")["status"] == "Unknown"
        chosen = [entry for entry in status["explanation"]["candidates"] if entry["chosen"]]
        assert [entry["node"] for entry in chosen] == [node]
        assert "throughput" not in status


async def test_heartbeats_renew_the_lease_without_a_write(stage: Stage) -> None:
    node = await stage.node("a")
    async with stage.scheduler(POLICY) as loop:
        await stage.job("j")
        first = (await stage.await_job("j", placed_on(node)))["status"]["assignment"]
        for _ in range(4):
            stage.clock.offset += 10.0
            since = stage.clock()
            await stage.beat(node)
            await stage.heard(loop, node, since)
        assert (await stage.get_job("j"))["status"]["assignment"] == first


async def test_a_job_that_makes_nothing_is_evicted_with_the_numbers(stage: Stage) -> None:
    node = await stage.node("a")
    async with stage.scheduler(POLICY.model_copy(update={"backoff_seconds": 300.0})) as loop:
        await stage.tuning("j", sla={"throughputFraction": 0.3})
        found = await stage.await_job("j", placed_on(node))
        await stage.pod("j-1", node, memory="64Mi", job=found)
        tokens = granted = 0
        for step in range(30):
            stage.clock.offset += 5.0
            tokens, granted, since = tokens + (500 if step < 6 else 0), granted + 5, stage.clock()
            await stage.report(node, tenants=[stage.tenant("j-1", tokens, granted)])
            await stage.heard(loop, node, since)
            await loop.step()
            if "assignment" not in (await stage.get_job("j"))["status"]:
                break
        status = (await stage.await_job("j", lambda status: "assignment" not in status))["status"]
        assert condition(status, "Placed")["reason"] == "SLAViolated"
        assert "of the throughput of its SLA 0.30 are missing" in condition(status, "Placed")["message"]
        assert condition(status, "SLAMet")["status"] == "False"
        async with stage.alive(node):
            # An explanation may be written half a minute later.
            stage.clock.offset += 30.0
            await stage.report(node)
            waiting = await stage.await_job("j", lambda status: "back-off until" in status["explanation"]["message"])
        assert condition(waiting["status"], "Placed")["reason"] == "SLAViolated"


async def test_a_job_whose_pod_does_not_start_leaves_the_node_for_the_length_of_a_backoff(stage: Stage) -> None:
    node = await stage.node("a")
    async with stage.scheduler(POLICY) as loop, stage.alive(node):
        await stage.job("j")
        first = (await stage.await_job("j", placed_on(node)))["status"]["assignment"]
        await stage.not_started("j")
        lost = (await stage.await_job("j", lambda status: "assignment" not in status))["status"]
        assert condition(lost, "Placed")["reason"] == "NotStarted"
        assert condition(lost, "Placed")["message"] == f"{node}: ImagePullBackOff: no such image"
        await stage.await_job("j", lambda status: "after NotStarted" in status["explanation"]["message"])
        stage.clock.offset += POLICY.backoff_seconds
        await stage.report(node)
        second = (await stage.await_job("j", placed_on(node)))["status"]
        assert second["assignment"]["id"] != first["id"]
        # What the operator said of the first assignment is still there.
        assert second["startFailure"]["assignment"] == first["id"]
        await loop.step()
        kept = (await stage.get_job("j"))["status"]
        assert (kept["assignment"]["id"], kept["evictions"]) == (second["assignment"]["id"], 1)


async def test_a_job_that_no_node_can_help_waits_for_all_of_them(stage: Stage) -> None:
    node = await stage.node("a")
    async with stage.scheduler(POLICY), stage.alive(node):
        await stage.job("j")
        await stage.await_job("j", placed_on(node))
        await stage.not_started("j", "Cluster")
        await stage.await_job("j", lambda status: "on all nodes" in status.get("explanation", {}).get("message", ""))


async def test_a_pod_that_does_not_tolerate_a_nodes_taint_is_not_sent_there(stage: Stage) -> None:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    node = await stage.node("a", taints=[taint])
    async with stage.scheduler(POLICY), stage.alive(node):
        await stage.tuning("j")
        refusal = f"{node}/cpu0: taint dedicated=db:NoSchedule is not tolerated"
        await stage.await_job("j", lambda status: refusal in status.get("explanation", {}).get("message", ""))
        template = {
            "spec": {
                "containers": [{"name": "main", "image": "none"}],
                "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            }
        }
        await stage.job("k", template=template)
        await stage.await_job("k", placed_on(node))


async def test_what_was_learned_since_the_last_save_is_stored_at_the_end(stage: Stage) -> None:
    async with stage.scheduler(POLICY) as loop:
        await stage.job("j")
        found = await stage.await_job("j", lambda status: bool(status.get("conditions")))
        backoffs = {(found["metadata"]["uid"], "n"): Backoff(2, stage.clock() + 1000.0, "SLAViolated")}
        loop.history = replace(loop.history, backoffs=backoffs)
        loop._keeping._saved_at = time.monotonic()
    assert (await Store(stage.client, stage.namespace).load(stage.clock() + 2000.0)).backoffs == backoffs
    async with stage.scheduler(POLICY) as loop:
        await stage.job("k")
        await stage.await_job("k", lambda status: bool(status.get("conditions")))
        assert loop.history.backoffs == backoffs, "before the jobs are listed none of them is gone"


async def test_a_restart_keeps_assignments_and_profiles(stage: Stage) -> None:
    node = await stage.node("a")
    async with stage.scheduler(POLICY):
        await stage.tuning("j")
        found = await stage.await_job("j", placed_on(node))
        await stage.pod("j-1", node, memory="64Mi", job=found)
        stage.clock.offset += 25.0
        await stage.report(node, tenants=[stage.tenant("j-1", 2500, 25.0)])
        await stage.await_job("j", lambda status: status.get("throughput", {}).get("soloTokensPerSecond") == 100.0)
    async with stage.scheduler(POLICY) as loop:
        stage.clock.offset += 5.0
        await stage.report(node)
        reported = await stage.await_job("j", lambda status: condition(status, "Admitted")["reason"] == "Admitted")
        assert reported["status"]["assignment"]["id"] == found["status"]["assignment"]["id"]
        await stage.job("k")
        await stage.await_job("k", placed_on(node))
        assert [profile.tokens_per_second for profile in loop.history.profiles.values()] == [100.0]


@pytest.mark.parametrize("how", ["disabled", "deleted", "suspended"])
async def test_what_the_user_takes_back_is_left(stage: Stage, how: str) -> None:
    node = await stage.node("a")
    async with stage.scheduler(POLICY):
        await stage.job("j")
        await stage.await_job("j", placed_on(node))
        if how == "disabled":
            await stage.service(harvest=False)
        elif how == "deleted":
            await stage.delete("rowen.dev/v1alpha1", "onlineservices/chat", stage.namespace)
        else:
            await stage.job("j", suspend=True)
        status = (await stage.await_job("j", lambda status: "assignment" not in status))["status"]
        assert condition(status, "Placed")["reason"] == ("Suspended" if how == "suspended" else "HarvestDisabled")


async def test_what_the_slo_guard_stops_is_withdrawn_with_the_reason(stage: Stage) -> None:
    node = await stage.node("a")
    async with stage.scheduler(POLICY):
        await stage.job("j")
        await stage.await_job("j", placed_on(node))
        await stage.guard("Reduced")
        await stage.job("k")
        one = f"SLO guard: OnlineService {stage.namespace}/chat misses its SLO beside offline work, one job at a time"
        await stage.await_job("k", lambda status: one in condition(status, "Placed").get("message", ""))
        await stage.await_job("j", placed_on(node))
        await stage.guard("Stopped")
        status = (await stage.await_job("j", lambda status: "assignment" not in status))["status"]
        placed = condition(status, "Placed")
        assert placed["reason"] == "HarvestDisabled"
        assert "SLO guard" in placed["message"]
        assert "nothing of it is harvested" in placed["message"]
        await stage.guard("Full")
        await stage.await_job("j", placed_on(node))


async def test_a_new_job_of_the_same_name_is_not_taken_for_the_old_one(stage: Stage) -> None:
    node = await stage.node("a")
    async with stage.scheduler(POLICY):
        await stage.job("j")
        old = await stage.await_job("j", placed_on(node))
        await stage.delete("rowen.dev/v1alpha1", "offlinejobs/j", stage.namespace)
        await stage.job("j")
        new = await stage.await_job("j", placed_on(node))
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        assert new["status"]["assignment"]["id"] != old["status"]["assignment"]["id"]
