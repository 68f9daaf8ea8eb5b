"""A lost node: its jobs are placed again on the other one and finish."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kit import batch, manifests
from kit.kubectl import apply, delete, get, kubectl, wait_condition, wait_until
from kit.world import World

LEFT, LOST = "rowen-node-1", "rowen-node-2"
ROWS = batch.requests(32, max_tokens=16)


def _node(verb: str, name: str) -> None:
    subprocess.run([sys.executable, "-m", "rowen.cluster", "node", verb, name], check=True, timeout=120)


def _assigned(world: World, job: str) -> str | None:
    return (get("ojob", job, world.namespace) or {}).get("status", {}).get("assignment", {}).get("node")


@contextmanager
def _cordoned(name: str) -> Iterator[None]:
    kubectl("cordon", name)
    try:
        yield
    finally:
        kubectl("uncordon", name)


def _place(world: World, job: str, node: str, other: str) -> None:
    """Starts a job on that node: where both are free the scheduler chooses, and nothing moves a job that runs."""
    with _cordoned(other):
        apply(manifests.batch(job, world.namespace, world.model, "moved.jsonl", f"{job}-results.jsonl"))
        wait_until(lambda: _assigned(world, job) == node, f"{job} is placed on {node}", 120)
        wait_condition("ojob", job, world.namespace, "Running", timeout_seconds=120)


def test_jobs_of_a_lost_node_finish_on_the_other(world: World, two_replicas: World) -> None:
    if not world.local:
        pytest.skip("only the local cluster's nodes may be stopped")
    batch.write(world.namespace, "moved.jsonl", ROWS)
    jobs = ["moved-a", "moved-b"]
    try:
        _place(world, "moved-a", LEFT, LOST)
        _place(world, "moved-b", LOST, LEFT)
        _node("stop", LOST)
        try:
            wait_until(
                lambda: _assigned(world, "moved-b") == LEFT, "the job of the lost node is placed on the other", 180
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
