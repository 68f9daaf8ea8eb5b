"""The world that a pass sees: what is kept of a node's view, and what hangs together."""

from dataclasses import replace

import pytest
from scheduler.builders import NOW, device, job, node, placed, pod, world

from rowen.scheduler.device import TenantView


def test_a_heartbeat_is_news_and_what_was_worked_out_of_the_report_is_kept() -> None:
    old = node("n", device("n", available=(1, 2)), ready=True, reported=NOW - 5)
    trace = old.trace("cpu0")
    new = node("n", device("n", available=(1, 2)), ready=False, reported=NOW).keeping(old)
    assert (new.heard, new.ready) == (NOW, False)
    assert new.trace("cpu0") is trace


def test_nothing_is_kept_of_another_report() -> None:
    old = node("n", device("n", available=(1, 2)))
    assert list(old.trace("cpu0")) == [1, 2]
    assert list(node("n", device("n", available=(3, 4))).keeping(old).trace("cpu0")) == [3, 4]


@pytest.mark.parametrize(
    ("devices", "slots", "each"), [(0, 4, 4), (1, 4, 4), (2, 4, 2), (3, 4, 2), (4, 3, 1), (2, 0, 0)]
)
def test_slots_are_for_devices_alike_and_none_is_left_over(devices: int, slots: int, each: int) -> None:
    view = replace(node("n"), devices=tuple(device("n", f"g{at}") for at in range(devices)), slots=slots)
    assert view.slots_each == each


def test_a_node_that_was_never_heard_is_older_than_any_lease() -> None:
    assert node("n", reported=None).age(NOW) == float("inf")
    assert node("n", reported=NOW - 3).age(NOW) == 3.0
    assert node("n", reported=NOW + 3).age(NOW) == 0.0


def test_a_pod_on_two_devices_is_one_tenancy_of_each() -> None:
    told = TenantView("ns", "p")
    view = node("n", device("n", "g0", tenants=(told,)), device("n", "g1", tenants=(told, TenantView("ns", "q"))))
    assert {key: [found.id for found, _ in entries] for key, entries in view.tenancies.items()} == {
        ("ns", "p"): ["g0", "g1"], ("ns", "q"): ["g1"],
    }  # fmt: skip


def test_jobs_and_pods_are_found_by_what_they_are_for() -> None:
    first, second, waiting = placed(job("a"), "m"), placed(job("b"), "n"), job("c")
    stranger = replace(pod(job("x"), "n"), job=None)
    snapshot = world(node("m"), first, second, waiting, pod(first, "m"), pod(second, "n"), stranger)
    assert {key: [view.name for view in views] for key, views in snapshot.pods_by_job.items()} == {
        "uid-a": ["a-1"], "uid-b": ["b-1"],
    }  # fmt: skip
    assert {key: [view.name for view in views] for key, views in snapshot.pods_by_node.items()} == {
        "m": ["a-1"], "n": ["b-1", "x-1"],
    }  # fmt: skip
    assert {key: [view.name for view in views] for key, views in snapshot.jobs_by_node.items()} == {
        "m": ["a"], "n": ["b"],
    }  # fmt: skip
