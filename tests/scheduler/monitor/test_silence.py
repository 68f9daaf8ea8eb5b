"""When a silent node is lost, and when it is waited for."""

from dataclasses import replace
from typing import Any

import pytest
from scheduler.builders import NOW, OVERDUE, POLICY, device, job, node, outcome, placed, run, world

from rowen.scheduler.decision import Action, decide
from rowen.scheduler.history import History, Track
from rowen.scheduler.monitor.hearing import Listening
from rowen.scheduler.snapshot import JobView


@pytest.mark.parametrize("wrong", [-3600.0, 3600.0])
@pytest.mark.parametrize(("age", "action"), [(OVERDUE, "keep"), (OVERDUE + 0.5, "revoke")])
def test_a_nodes_own_clock_does_not_matter(wrong: float, age: float, action: str) -> None:
    silent = node("n", reported=NOW - age + wrong, heard=NOW - age)
    found = outcome(run(silent, placed(job("j"), "n", renewed=NOW - age)), "j")
    assert found.action == action


@pytest.mark.parametrize(
    ("since", "until", "action"),
    [
        (NOW - 999, NOW, "revoke"),
        (NOW - OVERDUE, NOW, "keep"),
        (NOW - OVERDUE - 0.5, NOW, "revoke"),
        (NOW - 999, NOW - 600 + OVERDUE, "keep"),
        (NOW - 999, NOW - 600 + OVERDUE + 0.5, "revoke"),
    ],
)
def test_only_what_was_listened_to_is_silence(since: float, until: float, action: str) -> None:
    """After an outage, a restart or a stall every node has a full lease again."""
    view = placed(job("j"), "n", renewed=NOW - 600)
    for parts in ([node("n", reported=NOW - 600), view], [view]):
        snapshot = replace(world(*parts), listening=Listening(since, until))
        assert outcome(decide(snapshot, History(), NOW, POLICY), "j").action == action


def test_a_renewal_that_lies_ahead_counts_from_now() -> None:
    ahead = placed(job("j"), "n", renewed=NOW + 3600)
    for parts in ([ahead], [node("n", reported=None), ahead]):
        found = outcome(run(*parts), "j")
        assert found.placement is not None
        assert found.placement.renewed == NOW


def test_what_a_status_says_of_renewals_does_not_matter_where_the_node_was_heard() -> None:
    ahead = placed(job("j"), "n", renewed=NOW + 3600)
    found = outcome(run(node("n", reported=NOW - 5), ahead), "j")
    assert found.placement is not None
    assert found.placement.renewed == NOW - 5
    assert outcome(run(node("n", reported=NOW - OVERDUE - 0.5), ahead), "j").action is Action.REVOKE


def test_a_node_whose_report_is_missing_keeps_its_jobs_while_it_is_heard() -> None:
    without = replace(node("n"), reported=None, told=None, devices=())
    assert outcome(run(without, placed(job("j"), "n")), "j").action is Action.KEEP
    silent = replace(without, heard=NOW - OVERDUE - 0.5)
    assert outcome(run(silent, placed(job("j"), "n")), "j").action is Action.REVOKE


def test_a_new_lease_begins_when_the_node_was_heard() -> None:
    for heard, begins in ((NOW - 4, NOW - 4), (NOW, NOW)):
        found = outcome(run(node("n", reported=NOW + 3600, heard=heard), job("j")), "j")
        assert found.placement is not None
        assert found.placement.renewed == begins


def silent_nodes(count: int, age: float = OVERDUE + 2) -> list[Any]:
    """So many silent nodes, each with a job."""
    views = [placed(job(f"j{number}"), f"s{number}", renewed=NOW - age) for number in range(count)]
    return [*views, *(node(f"s{number}", reported=NOW - age) for number in range(count))]


def heard_nodes(count: int) -> list[Any]:
    """So many nodes that have just reported, each with a job."""
    views = [placed(job(f"k{number}"), f"h{number}") for number in range(count)]
    return [*views, *(node(f"h{number}") for number in range(count))]


@pytest.mark.parametrize(
    ("silent", "heard", "kept"), [(1, 0, False), (1, 1, False), (2, 0, True), (2, 1, True), (2, 2, False), (3, 1, True)]
)
def test_most_nodes_at_once_are_waited_for(silent: int, heard: int, kept: bool) -> None:
    decision = run(*silent_nodes(silent), *heard_nodes(heard))
    found = outcome(decision, "j0")
    assert found.action is (Action.KEEP if kept else Action.REVOKE)
    assert ("the node is silent, as most nodes are" in found.message) == kept
    assert decision.waited_for == (frozenset(f"s{number}" for number in range(silent)) if kept else frozenset())


@pytest.mark.parametrize(("age", "action"), [(OVERDUE + 300, "keep"), (OVERDUE + 300.5, "revoke")])
def test_they_are_waited_for_no_longer_than_the_policy_says(age: float, action: str) -> None:
    assert outcome(run(*silent_nodes(3, age)), "j0").action == action


def test_nodes_without_an_assignment_to_lose_say_nothing() -> None:
    done = replace(placed(job("done"), "h0"), finished=True)
    going = replace(placed(job("going"), "h1"), deleting=True)
    assert outcome(run(*silent_nodes(2), done, going, node("h0"), node("h1")), "j0").action is Action.KEEP


def test_a_node_that_has_been_removed_is_not_waited_for() -> None:
    jobs = [part for part in silent_nodes(3) if isinstance(part, JobView)]
    assert {found.action for found in run(*jobs).outcomes} == {Action.REVOKE}


def test_the_freshest_renewal_speaks_for_its_node() -> None:
    """The node has lost its report, and two jobs were placed at different times."""
    old, new = placed(job("a"), "n", renewed=NOW - OVERDUE - 12), placed(job("b"), "n", renewed=NOW - 5)
    assert {found.action for found in run(old, new, node("n", reported=None)).outcomes} == {Action.KEEP}


def test_a_user_may_take_a_job_from_a_node_that_is_waited_for() -> None:
    parts = silent_nodes(3)
    parts[0] = replace(parts[0], suspended=True)
    assert outcome(run(*parts), "j0").action is Action.REVOKE


@pytest.mark.parametrize(("since", "action"), [(30, "keep"), (31, "revoke")])
def test_only_what_was_listened_to_is_absence(since: float, action: str) -> None:
    """A clock that jumps ahead, or an outage, makes no absence."""
    parts = (node("n", device("n", attached=False)), placed(job("j"), "n"))
    snapshot = replace(world(*parts), listening=Listening(NOW - since, NOW))
    history = History(absences={("n", "cpu0"): NOW - 3600})
    assert outcome(decide(snapshot, history, NOW, POLICY), "j").action == action


def test_an_assignment_that_was_made_by_a_clock_ahead_can_be_evicted() -> None:
    view = placed(job("j", sla=0.3), "n", at=NOW + 3600)
    track = Track("id-j", "j-1", "class", ("cpu",), NOW - 120, NOW, 0, 0.0, shortfall=120.0, fraction=0.2)
    assert (
        outcome(run(view, node("n"), node("z"), history=History(tracks={"uid-j": track})), "j").action is Action.REVOKE
    )
