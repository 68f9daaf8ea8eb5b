"""What pages of candidates tell of a job that would like to lie apart from its like."""

from dataclasses import replace

import pytest
from scheduler.builders import NOW, POLICY, device, job, node, placed, world

from rowen.scheduler.history import History
from rowen.scheduler.placement.constraints import Requirement
from rowen.scheduler.placement.search.choice import Page
from rowen.scheduler.placement.spread_rules import SpreadRule
from rowen.scheduler.serve.whatif import candidates, predict
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
