"""Every component may be killed at any moment: online requests do not notice, offline work pauses and goes on."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kit import batch, manifests, volumes
from kit.kubectl import apply, delete, items, kubectl, wait_condition, wait_until
from kit.traffic import Background
from kit.world import World

ROWS = batch.requests(48, max_tokens=24)
COMPONENTS = {
    "operator": ("rowen-system", "app.kubernetes.io/component=operator"),
    "scheduler": ("rowen-system", "app.kubernetes.io/component=scheduler"),
    "agent": ("rowen-agent", "app.kubernetes.io/component=agent"),
}


def _kill(component: str) -> None:
    """SIGKILL: the pods are removed without a grace period."""
    namespace, selector = COMPONENTS[component]
    names = [pod["metadata"]["name"] for pod in items("pods", namespace, selector)]
    assert names, f"no {component} runs"
    kubectl("delete", "pods", "-n", namespace, *names, "--force", "--grace-period=0", timeout=90)


def _ready(component: str) -> bool:
    namespace, selector = COMPONENTS[component]
    pods = items("pods", namespace, selector)
    return bool(pods) and all(
        entry["status"] == "True"
        for pod in pods
        for entry in pod["status"].get("conditions", [])
        if entry["type"] == "Ready"
    )


def _begun(world: World, results: str) -> bool:
    """Whether a row is answered: the status may tell of it when all of them are, 20 s later."""
    path = f"data/{results}"
    return volumes.exists(world.namespace, path) and volumes.read(world.namespace, path) != ""


def test_killing_each_component_under_traffic(world: World) -> None:
    batch.write(world.namespace, "many.jsonl", ROWS)
    with Background(world.url, world.service) as traffic:
        apply(manifests.batch("survivor", world.namespace, world.model, "many.jsonl", "many-results.jsonl"))
        wait_condition("ojob", "survivor", world.namespace, "Running", timeout_seconds=180)
        for component in COMPONENTS:
            _kill(component)
            wait_until(lambda name=component: _ready(name), f"{component} is Ready again", 120)
        finished = wait_condition("ojob", "survivor", world.namespace, "Finished", timeout_seconds=420)
    try:
        assert finished["reason"] == "Completed"
        assert traffic.errors == []
        assert len(traffic.answers) > 10
        batch.check_answered_once(world.namespace, "many-results.jsonl", ROWS)
    finally:
        delete("ojob", "survivor", world.namespace)


@pytest.mark.slow
def test_killing_the_worker_loses_and_doubles_no_row(world: World) -> None:
    batch.write(world.namespace, "killed.jsonl", ROWS)
    apply(manifests.batch("reborn", world.namespace, world.model, "killed.jsonl", "killed-results.jsonl"))
    try:
        wait_until(lambda: _begun(world, "killed-results.jsonl"), "some rows are done", 240)
        worker = items("pods", world.namespace, "rowen.dev/job=reborn")[0]["metadata"]["name"]
        kubectl("delete", "pod", worker, "-n", world.namespace, "--force", "--grace-period=0")
        finished = wait_condition("ojob", "reborn", world.namespace, "Finished", timeout_seconds=420)
        assert finished["reason"] == "Completed"
        batch.check_answered_once(world.namespace, "killed-results.jsonl", ROWS)
    finally:
        delete("ojob", "reborn", world.namespace)


def _counting_job(world: World) -> dict[str, Any]:
    """A job that counts in a file while it may compute."""
    program = (
        "import itertools\n"
        "for n in itertools.count():\n"
        "    sum(range(20000))\n"
        "    if n % 50 == 0:\n"
        "        open('/volumes/data/count', 'w').write(str(n))\n"
    )
    manifest = manifests.spinning("counter", world.namespace, world.runtime_image)
    pod = manifest["spec"]["template"]["spec"]
    pod["containers"][0]["command"] = ["python", "-c", program]
    pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/volumes/data"}]
    pod["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return manifest


@contextmanager
def _no_agents() -> Iterator[None]:
    """Takes every agent away, without a grace period, and gives them back."""
    nowhere = {"spec": {"template": {"spec": {"nodeSelector": {"rowen-e2e": "nowhere"}}}}}
    somewhere = {"spec": {"template": {"spec": {"nodeSelector": {"rowen-e2e": None}}}}}
    namespace, selector = COMPONENTS["agent"]
    (name,) = [entry["metadata"]["name"] for entry in items("daemonsets", namespace, selector)]
    kubectl("patch", "daemonset", name, "-n", namespace, "--type=merge", "-p", json.dumps(nowhere))
    _kill("agent")
    wait_until(lambda: not items("pods", namespace, selector), "no agent is left", 60)
    try:
        yield
    finally:
        kubectl("patch", "daemonset", name, "-n", namespace, "--type=merge", "-p", json.dumps(somewhere))
        wait_until(lambda: _ready("agent"), "the agents are Ready again", 120)


def _engines(world: World) -> set[str]:
    """Ids of the engine's containers."""
    return {
        container["containerID"]
        for pod in items("pods", world.namespace, f"rowen.dev/service={world.service}")
        for container in pod.get("status", {}).get("containerStatuses", [])
    }


def test_without_its_agent_offline_work_pauses_and_then_resumes(world: World) -> None:
    apply(_counting_job(world))

    def count() -> int:
        text = volumes.read(world.namespace, "data/count") if volumes.exists(world.namespace, "data/count") else ""
        return int(text or 0)

    def moves() -> bool:
        # The file may be empty for a moment, which is a sign of life, too.
        before = count()
        time.sleep(1)
        return count() != before

    try:
        wait_condition("ojob", "counter", world.namespace, "Running", timeout_seconds=180)
        wait_until(moves, "the worker counts", 60)
        engines = _engines(world)
        assert engines
        with _no_agents():
            wait_until(lambda: not moves(), "the worker has noticed and stands still", 30)
            stopped = count()
            with Background(world.url, world.service) as traffic:
                time.sleep(3)
            assert traffic.errors == []
            assert count() == stopped
        wait_until(moves, "the worker counts again", 90)
        # The engine has found the next agent by itself.
        assert _engines(world) == engines
    finally:
        delete("ojob", "counter", world.namespace)
