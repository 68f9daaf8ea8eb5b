"""A placement whose pod never runs is told of and given up, so that its slot serves another job."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kit import manifests
from kit.kubectl import apply, condition, delete, get, items, wait_condition, wait_until
from kit.world import World

DEADLINE_SECONDS = 120
"""The operator's, after it has seen what the kubelet says is wrong."""
UNPULLABLE = ("ErrImagePull", "ImagePullBackOff")


@contextmanager
def _jobs(world: World, *jobs: dict[str, Any]) -> Iterator[None]:
    """Deletes the jobs at the end, whichever of them were applied."""
    try:
        yield
    finally:
        for job in jobs:
            delete("ojob", job["metadata"]["name"], world.namespace)


def _status(world: World, name: str) -> dict[str, Any]:
    return (get("ojob", name, world.namespace) or {}).get("status", {})


def _explanation(world: World, name: str) -> str:
    return json.dumps(_status(world, name).get("explanation", {}))


def _given_up(world: World, name: str) -> dict[str, Any] | None:
    placed = condition(get("ojob", name, world.namespace), "Placed")
    return placed if placed.get("reason") == "NotStarted" else None


def _no_image(world: World) -> str:
    """Of the cluster's own registry, which says so at once: how long a name takes to fail differs by network."""
    return f"{world.runtime_image.rsplit('/', 1)[0]}/no-such-image:1"


def _pull_problem(world: World, name: str) -> str | None:
    """What the kubelet says of the image of the job's pod."""
    for pod in items("pods", world.namespace, f"rowen.dev/job={name}"):
        for container in pod.get("status", {}).get("containerStatuses", []):
            reason = container.get("state", {}).get("waiting", {}).get("reason")
            if reason in UNPULLABLE:
                return str(reason)
    return None


def _told(world: World, name: str) -> list[str]:
    """What the events of starts that failed say."""
    events = [event for event in items("events", world.namespace) if event["involvedObject"].get("name") == name]
    return [event["message"] for event in events if event["reason"] == "NotStarted"]


def test_an_image_that_cannot_be_pulled_gives_its_slot_back(world: World) -> None:
    if not world.local:
        pytest.skip("how many slots are free is known on the local cluster only")
    image = _no_image(world)
    retried = manifests.spinning("unpullable", world.namespace, image)
    doomed = manifests.spinning("doomed", world.namespace, image, backoffLimit=0)
    waiting = manifests.spinning("waiting", world.namespace, world.runtime_image)
    with _jobs(world, retried, doomed, waiting):
        apply(retried, doomed)
        for name in ("unpullable", "doomed"):
            wait_condition("ojob", name, world.namespace, "Placed", timeout_seconds=60)
        apply(waiting)
        wait_until(
            lambda: "no free harvest slot" in _explanation(world, "waiting"), "both slots are held by the others", 60
        )
        wait_until(lambda: _pull_problem(world, "unpullable"), "the kubelet says what is wrong with the image", 60)
        placed = wait_until(lambda: _given_up(world, "unpullable"), "the placement is withdrawn", DEADLINE_SECONDS + 60)
        assert placed is not None
        assert placed["status"] == "False"
        assert any(reason in placed["message"] for reason in UNPULLABLE)
        assert _status(world, "unpullable")["failures"] == 1
        assert condition(get("ojob", "unpullable", world.namespace), "Finished")["status"] == "False"
        finished = wait_condition("ojob", "doomed", world.namespace, "Finished", timeout_seconds=60)
        assert finished["reason"] in UNPULLABLE
        assert image in finished["message"]
        assert _status(world, "doomed")["failures"] == 1
        assert _status(world, "doomed")["startFailure"]["cause"] == "Job"
        for name in ("unpullable", "doomed"):
            wait_until(
                lambda name=name: any(" on node " in message for message in _told(world, name)),
                f"an event tells of {name} and of its node",
                30,
            )
        wait_condition("ojob", "waiting", world.namespace, "Running", timeout_seconds=90)


def test_a_template_that_no_node_satisfies_is_never_placed(world: World) -> None:
    nowhere = manifests.spinning("nowhere", world.namespace, world.runtime_image)
    nowhere["spec"]["template"]["spec"]["nodeSelector"] = {"rowen-e2e": "nowhere"}
    with _jobs(world, nowhere):
        apply(nowhere)
        wait_until(
            lambda: "nodeSelector rowen-e2e=nowhere" in _explanation(world, "nowhere"),
            "the explanation names the nodeSelector",
            60,
        )
        assert condition(get("ojob", "nowhere", world.namespace), "Placed").get("status") == "False"
        assert items("pods", world.namespace, "rowen.dev/job=nowhere") == []
