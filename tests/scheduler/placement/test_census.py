"""What is held when a pass begins."""

from dataclasses import replace

import pytest
from scheduler.builders import NOW, POLICY, device, job, node, placed, world

from rowen.scheduler.history import History
from rowen.scheduler.model.profile import Profile
from rowen.scheduler.placement.census import build_fleet

KNOWN = History(profiles={("class", "cpu"): Profile(100.0, 60.0, NOW), ("class", "gpu"): Profile(400.0, 60.0, NOW)})


@pytest.mark.parametrize(
    ("types", "rate"),
    [(("cpu",), 0.25), (("gpu",), 1.0), (("cpu", "gpu"), 0.25), (("new",), 1.0), (("new", "cpu"), 0.25)],
)
def test_what_a_job_can_lose_goes_by_the_slowest_of_its_devices(types: tuple[str, ...], rate: float) -> None:
    """A type on which the class was never seen counts in full."""
    devices = [replace(device("n", f"g{at}"), type=type_) for at, type_ in enumerate(types)]
    held = placed(job("j", devices=len(types)), "n", *(view.id for view in devices))
    _, claims = build_fleet(world(node("n", *devices), held), KNOWN, (), NOW, POLICY)
    assert claims["uid-j"][1].rate == rate


def test_a_job_on_a_node_that_is_gone_is_held_as_it_was() -> None:
    _, claims = build_fleet(world(placed(job("j"), "n")), KNOWN, (), NOW, POLICY)
    assert claims["uid-j"][1].rate == 1.0
