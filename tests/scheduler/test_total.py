"""No one is placed where the fleet as a whole would get less, unless he goes before all who pay for it."""

from typing import Any

import pytest
from scheduler.builders import GIB, NOW, device, job, node, outcome, placed, pod, run

from rowen.scheduler.decision import Action, Decision
from rowen.scheduler.device import DeviceView
from rowen.scheduler.history import History
from rowen.scheduler.model.profile import Profile
from rowen.scheduler.placement.search.request import Candidate
from rowen.scheduler.snapshot import JobView, NodeView

EIGHT = tuple(f"g{number}" for number in range(8))


def wide(name: str, count: int, *, idle: float = 0.8, slots: int = 2) -> NodeView:
    return node(name, *(device(name, f"g{i}", idle=idle) for i in range(count)), slots=slots * count)


def full(name: str, id_: str, holders: int = 1, **fields: Any) -> DeviceView:
    """A device on which so many jobs of 1 GiB leave no room for one more."""
    return device(name, id_, memory=(2 + holders) * GIB, **fields)


def wide_job(name: str, at: str, *devices: str, **fields: Any) -> JobView:
    return placed(job(name, devices=len(devices), **fields), at, *devices)


def candidate(decision: Decision, name: str, *devices: str) -> Candidate:
    return next(found for found in outcome(decision, name).candidates if found.devices == devices)


def test_a_job_that_costs_its_neighbours_more_than_it_gets_is_refused() -> None:
    found = outcome(run(wide("n", 8), wide_job("a", "n", *EIGHT), job("j")), "j")
    assert found.action is Action.WAIT
    assert found.message == (
        "no candidate holds: n/g0: would lower the total by 2.80 devices: ns/a would fall from 0.80 to 0.40"
    )
    assert {entry.gain for entry in found.candidates} == {0.0}


def test_a_rate_that_made_the_difference_is_told() -> None:
    """0.4 devices at a quarter of its speed beside the 0.4 that `a` loses, whose class knows no other speed."""
    known = History(profiles={("slow", "cpu"): Profile(1.0, 60.0, NOW), ("slow", "gpu"): Profile(4.0, 60.0, NOW)})
    found = outcome(run(wide("n", 1), wide_job("a", "n", "g0"), job("j", workload="slow"), history=known), "j")
    lowers = "would lower the total by 0.30 devices, x rate 0.25: ns/a would fall from 0.80 to 0.40"
    assert found.message == f"no candidate holds: n/g0: {lowers}"


@pytest.mark.parametrize("count", [1, 2, 8])
def test_equals_may_share(count: int) -> None:
    ids = EIGHT[:count]
    decision = run(wide("n", count), wide_job("a", "n", *ids), job("j", devices=count))
    assert outcome(decision, "j").action is Action.PLACE
    chosen = candidate(decision, "j", *ids)
    assert (chosen.gain, str(chosen.gain)) == (0.0, "0.0")


def test_nothing_gained_is_told_without_a_sign() -> None:
    """0.03 / 3 - 2 * 0.005 is a little less than 0 in floating point."""
    decision = run(wide("n", 1, idle=0.03, slots=3), wide_job("a", "n", "g0"), wide_job("b", "n", "g0"), job("j"))
    assert str(candidate(decision, "j", "g0").gain) == "0.0"


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (0.39, ""),
        (0.4, ""),
        (0.4 + 4e-10, ""),
        (0.4 + 6e-10, "would lower the total by 0.00 devices: ns/a would fall from 0.40 to 0.20"),
        (0.41, "would lower the total by 0.01 devices: ns/a would fall from 0.41 to 0.20"),
    ],
)
def test_the_bound_is_zero_beyond_rounding(other: float, reason: str) -> None:
    world = node("n", device("n", "g0", idle=0.8), full("n", "g1", idle=other))
    decision = run(world, wide_job("a", "n", "g0", "g1"), job("j"))
    assert candidate(decision, "j", "g0").refusal == reason
    assert outcome(decision, "j").action is (Action.WAIT if reason else Action.PLACE)


@pytest.mark.parametrize(
    ("newcomer", "neighbour", "action"),
    [(1, 0, Action.PLACE), (0, 0, Action.WAIT), (0, 1, Action.WAIT), (-1, -2, Action.PLACE), (-2, -1, Action.WAIT)],
)
def test_a_job_of_higher_priority_may_cost_more_than_it_gets(newcomer: int, neighbour: int, action: Action) -> None:
    decision = run(wide("n", 8), wide_job("a", "n", *EIGHT, priority=neighbour), job("j", priority=newcomer))
    assert outcome(decision, "j").action is action
    if action is Action.PLACE:
        assert candidate(decision, "j", "g0").gain == -2.8


@pytest.mark.parametrize(("priority", "placed_"), [(1, False), (2, False), (3, True)])
def test_all_who_pay_have_to_be_of_lower_priority(priority: int, placed_: bool) -> None:
    world = node("n", device("n", "g0"), full("n", "g1", 2), full("n", "g2"), slots=9)
    first, second = wide_job("a", "n", "g0", "g1", "g2"), wide_job("b", "n", "g0", "g1", priority=2)
    decision = run(world, first, second, job("j", priority=priority))
    assert (outcome(decision, "j").action is Action.PLACE) == placed_
    if not placed_:
        expected = "would lower the total by 0.40 devices: ns/a would fall from 0.40 to 0.27"
        assert candidate(decision, "j", "g0").refusal == expected


def test_who_loses_ever_so_little_has_a_say() -> None:
    world = node("n", device("n", "g0"), full("n", "g1"), full("n", "g2"), full("n", "g3", idle=0.0005), slots=12)
    jobs = [wide_job("a", "n", "g0", "g1", "g2"), wide_job("b", "n", "g0", "g3", priority=9)]
    assert outcome(run(world, *jobs, job("j", priority=9)), "j").action is Action.WAIT
    assert outcome(run(world, *jobs, job("j", priority=10)), "j").action is Action.PLACE


def test_a_neighbour_that_loses_nothing_has_no_say() -> None:
    """`b` is held back by its other device, where it already has two neighbours."""
    world = node("n", device("n", "g0"), full("n", "g1"), full("n", "g2"), full("n", "g3", 3), slots=12)
    jobs = [
        wide_job("a", "n", "g0", "g1", "g2"),
        wide_job("b", "n", "g0", "g3", priority=9),
        *(wide_job(name, "n", "g3") for name in "xy"),
    ]
    assert outcome(run(world, *jobs, job("j", priority=1)), "j").action is Action.PLACE
    assert outcome(run(world, *jobs, job("j", priority=0)), "j").action is Action.WAIT


@pytest.mark.parametrize(("priority", "action"), [(-1, Action.WAIT), (0, Action.WAIT), (1, Action.PLACE)])
def test_a_pod_without_an_assignment_counts_as_priority_0(priority: int, action: Action) -> None:
    old = job("old", devices=8, priority=5)
    found = outcome(run(wide("n", 8), pod(old, "n", *EIGHT), job("j", priority=priority)), "j")
    assert found.action is action
    assert action is Action.PLACE or "pod ns/old-1 would fall from 0.80 to 0.40" in found.message


def test_a_broken_promise_is_told_first_and_priority_does_not_excuse_it() -> None:
    first = wide_job("a", "n", *EIGHT, sla=0.5)
    found = outcome(run(wide("n", 8), first, job("j", priority=9)), "j")
    assert found.action is Action.WAIT
    assert "ns/a would fall to 0.40 < its SLA with margin 0.56" in found.message


def crowded(count: int) -> list[NodeView | JobView]:
    """Nodes with a job in lockstep on four devices each; a newcomer on fewer would lower the total."""
    nodes = [wide(f"n{number:03}", 4, idle=0.9) for number in range(count)]
    return [*nodes, *(wide_job(f"a{view.name}", view.name, *EIGHT[:4]) for view in nodes)]


@pytest.mark.parametrize("count", [1, 2])
def test_a_place_behind_many_that_lower_the_total_is_found(count: int) -> None:
    last = wide("z", count, idle=0.2)
    neighbour = wide_job("last", "z", *EIGHT[:count])
    decision = run(*crowded(40), last, neighbour, job("j", devices=count))
    found = outcome(decision, "j")
    assert found.placement is not None
    assert (found.placement.node, found.placement.devices) == ("z", EIGHT[:count])
    assert [entry.refusal for entry in found.candidates] == [""]


@pytest.mark.parametrize("count", [1, 2])
def test_who_may_lower_the_total_does_so_only_where_nothing_else_is_left(count: int) -> None:
    last, neighbour = wide("z", count, idle=0.2), wide_job("last", "z", *EIGHT[:count])
    few = run(*crowded(5), last, neighbour, job("j", devices=count, priority=1))
    found = outcome(few, "j")
    assert found.placement is not None
    assert found.placement.node == "z"


def single_fit(name: str) -> list[NodeView | JobView]:
    """A node on which a job on one device fits on `g0` alone, and lowers the total by 0.0005 devices there."""
    world = node(name, device(name, "g0", idle=0.9), full(name, "g1", idle=0.4505))
    return [world, wide_job(f"a{name}", name, "g0", "g1")]


def test_a_place_that_costs_nothing_is_found_behind_any_number_of_losses() -> None:
    parts = [part for number in range(100) for part in single_fit(f"n{number:03}")]
    last, neighbour = wide("z", 1, idle=0.2), wide_job("last", "z", "g0")
    found = outcome(run(*parts, last, neighbour, job("j", priority=1)), "j")
    assert found.placement is not None
    assert found.placement.node == "z"


def test_what_one_newcomer_has_taken_the_next_does_not_take_again() -> None:
    """`a` pays for the first newcomer; on another of its devices the second costs it nothing more."""
    decision = run(wide("n", 8), wide_job("a", "n", *EIGHT), job("first", priority=5), job("second"))
    assert outcome(decision, "first").action is Action.PLACE
    assert outcome(decision, "second").action is Action.PLACE
    assert candidate(decision, "second", "g1").gain == 0.4
