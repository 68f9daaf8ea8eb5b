"""Where a job would go that is not there yet, and one in the stead of one that is."""

from dataclasses import replace

import pytest
from scheduler.builders import GIB, NOW, POLICY, device, job, node, outcome, placed, running, world

from rowen.scheduler.decision import Action
from rowen.scheduler.history import History
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.placement.constraints import Requirement
from rowen.scheduler.placement.search.choice import Page
from rowen.scheduler.placement.spread_rules import SpreadRule
from rowen.scheduler.serve.whatif import candidates, changed, predict, present, what_if
from rowen.scheduler.snapshot import JobView

HOST = "kubernetes.io/hostname"
LIKE = (("app", "x"),)


def wish(name: str) -> JobView:
    """It would like a host of its own, and goes where it must."""
    rule = SpreadRule(HOST, (Requirement("app", "In", ("x",)),), must=False)
    return replace(job(name), labels=LIKE, spread=(rule,))


@pytest.mark.parametrize(("idle", "first"), [(0.1, "b"), (0.0, "a")])
def test_the_first_candidate_is_the_one_that_a_pass_would_take(idle: float, first: str) -> None:
    """`a` is idler, and has one of its like; on `b` it is alone, if there is anything to harvest."""
    wide = node("a", device("a", "g0", idle=0.9), device("a", "g1", idle=0.9), labels={HOST: "a"})
    other = node("b", device("b", "g0", idle=idle), labels={HOST: "b"})
    held, asked = placed(replace(job("j1"), labels=LIKE), "a", "g0"), wish("j2")
    snapshot = world(wide, other, held, asked)
    told = candidates(snapshot, History(), asked, NOW, POLICY, Page())
    chosen = predict(snapshot, History(), asked, NOW, POLICY).choice.chosen
    assert chosen is not None
    assert (told[0].node, told[0].refusal) == (chosen.node, "") == (first, "")
    assert {one.node for one in told} == {"a", "b"}


def test_what_a_job_has_for_itself_is_lent_again_to_the_one_in_its_stead() -> None:
    """The report's 1 GiB is what is left beside its 2 GiB: (1 + 2 - 2) / 4 = 0.25 of what the new one wants."""
    want = {"memory": 2 * GIB, "pool": 4 * GIB, "need": linear_need(4 * GIB, doubt=0.0)}
    there, new = placed(job("j", **want), "n"), replace(job("new", **want), name="j")
    lending = node("n", device("n", idle=0.8, available=(GIB,)), slots=1)
    snapshot = changed(world(*running(lending, there)), [new], (), ())
    told = outcome(what_if(snapshot, History(), NOW, POLICY), "new")
    assert (told.action, told.fraction) == (Action.PLACE, pytest.approx(0.8 * 0.25))


def test_a_job_in_the_stead_of_another_is_as_old() -> None:
    """Of two that wait for one slot, the older one goes first."""
    there, other, new = (
        placed(job("x", created=1.0), "n"),
        job("y", created=2.0),
        replace(job("new", created=NOW), name="x"),
    )
    snapshot = changed(world(*running(node("n", slots=1), there, other)), [new], (), ())
    decision = what_if(snapshot, History(), NOW, POLICY)
    assert [outcome(decision, name).action for name in ("new", "y")] == [Action.PLACE, Action.WAIT]


def test_who_has_a_place_that_stays_is_known() -> None:
    new = replace(job("new"), name="x")
    for there, stays in (
        (placed(job("x"), "n"), True),
        (job("x"), False),
        (placed(job("x", suspended=True), "n"), False),
        (placed(job("x", deleting=True), "n"), False),
        (placed(job("x", finished=True), "n"), False),
        (placed(job("z"), "n"), False),
    ):
        found = present(world(node("n"), there), [new], ())
        assert found == ({"uid-new": there.placement} if stays else {})
    assert not present(world(node("n"), placed(job("x"), "n")), [new], ["n"])
