"""What is deleted leaves nothing behind, and takes with it only what was its own."""

from kit import manifests
from kit.kubectl import apply, condition, delete, get, items, wait_condition, wait_until
from kit.world import World


def _worker_gone(world: World, job: str) -> bool:
    return not items("pods", world.namespace, f"rowen.dev/job={job}")


def test_a_job_deleted_while_it_runs_leaves_nothing(world: World) -> None:
    apply(manifests.spinning("short-lived", world.namespace, world.runtime_image))
    wait_condition("ojob", "short-lived", world.namespace, "Running")
    delete("ojob", "short-lived", world.namespace)
    wait_until(lambda: _worker_gone(world, "short-lived"), "the worker pod is gone", 60)
    assert get("ojob", "short-lived", world.namespace) is None
    owned = [
        f"{kind}/{entry['metadata']['name']}"
        for kind in ("pods", "configmaps", "services", "deployments")
        for entry in items(kind, world.namespace)
        if any(owner["name"] == "short-lived" for owner in entry["metadata"].get("ownerReferences", []))
    ]
    assert owned == []


def test_switching_harvest_off_takes_the_job_away_and_on_brings_it_back(world: World) -> None:
    apply(manifests.spinning("guest", world.namespace, world.runtime_image))
    try:
        wait_condition("ojob", "guest", world.namespace, "Running")
        apply(manifests.online_service(world.service, world.namespace, world.model, harvest=False))
        wait_until(lambda: _worker_gone(world, "guest"), "the worker pod is gone", 90)
        placed = condition(get("ojob", "guest", world.namespace), "Placed")
        assert placed["status"] == "False"
        assert placed["reason"]
        apply(manifests.online_service(world.service, world.namespace, world.model))
        wait_condition("ojob", "guest", world.namespace, "Running", timeout_seconds=180)
    finally:
        apply(manifests.online_service(world.service, world.namespace, world.model))
        delete("ojob", "guest", world.namespace)


def test_a_service_deleted_while_it_hosts_a_job_releases_the_job(own_service: World) -> None:
    world = own_service
    apply(manifests.spinning("orphan", world.namespace, world.runtime_image))
    try:
        wait_condition("ojob", "orphan", world.namespace, "Running", timeout_seconds=180)
        delete("osvc", world.service, world.namespace)
        wait_until(lambda: _worker_gone(world, "orphan"), "the worker pod is gone", 120)
        job = get("ojob", "orphan", world.namespace)
        assert condition(job, "Placed")["status"] == "False"
        assert condition(job, "Finished").get("status") != "True"
        assert get("deployment", world.service, world.namespace) is None
        assert get("service", world.service, world.namespace) is None
    finally:
        delete("ojob", "orphan", world.namespace)
