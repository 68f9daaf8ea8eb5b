"""A lost node: its jobs are placed again on the other one and finish."""

import subprocess
import sys

import pytest
from kit import batch, manifests
from kit.kubectl import apply, delete, get, wait_condition, wait_until
from kit.world import World

LEFT, LOST = "rowen-node-1", "rowen-node-2"
ROWS = batch.requests(32, max_tokens=16)


def _node(verb: str, name: str) -> None:
    subprocess.run([sys.executable, "-m", "rowen.cluster", "node", verb, name], check=True, timeout=120)


def _assigned(world: World, job: str) -> str | None:
    return (get("ojob", job, world.namespace) or {}).get("status", {}).get("assignment", {}).get("node")


def _on_both_nodes(world: World, jobs: list[str]) -> dict[str, str]:
    """Node → job; empty until each of the nodes has one."""
    places = {node: job for job in jobs if (node := _assigned(world, job))}
    return places if set(places) == {LEFT, LOST} else {}


def test_jobs_of_a_lost_node_finish_on_the_other(world: World, two_replicas: World) -> None:
    if not world.local:
        pytest.skip("only the local cluster's nodes may be stopped")
    batch.write(world.namespace, "moved.jsonl", ROWS)
    jobs = ["moved-a", "moved-b"]
    for job in jobs:
        apply(manifests.batch(job, world.namespace, world.model, "moved.jsonl", f"{job}-results.jsonl"))
    try:
        places = wait_until(lambda: _on_both_nodes(world, jobs), "the two jobs are on different nodes", 120)
        _node("stop", LOST)
        try:
            wait_until(
                lambda: _assigned(world, places[LOST]) == LEFT, "the job of the lost node is placed on the other", 180
            )
            for job in jobs:
                finished = wait_condition("ojob", job, world.namespace, "Finished", timeout_seconds=420)
                assert finished["reason"] == "Completed"
                batch.check_answered_once(world.namespace, f"{job}-results.jsonl", ROWS)
        finally:
            _node("start", LOST)
    finally:
        for job in jobs:
            delete("ojob", job, world.namespace)
