"""When the cluster is listed anew before nodes are taken for lost."""

import pytest
from scheduler.builders import NOW, device, job, node, placed, run

from rowen.scheduler.decision import Decision
from rowen.scheduler.monitor.doubt import Doubt, suspects


def lost(*names: str) -> Decision:
    """A pass in which these nodes are lost, beside more nodes that are heard."""
    gone = [placed(job(name), name, renewed=NOW - 60) for name in names]
    fine = [part for other in ("x", "y", "z") for part in (placed(job(other), other), node(other))]
    return run(*gone, *(node(name, reported=NOW - 60) for name in names), *fine)


def waiting(*names: str) -> Decision:
    """A pass in which most nodes are silent and waited for."""
    parts = [(placed(job(name), name, renewed=NOW - 60), node(name, reported=NOW - 60)) for name in names]
    return run(*(part for pair in parts for part in pair))


def confirmed(decision: Decision, asked: float = 100.0) -> Doubt:
    return Doubt(suspects(decision), asked)


def test_what_is_suspected() -> None:
    assert suspects(lost("a", "b")) == {("a", True), ("b", True)}
    assert suspects(waiting("a", "b")) == {("a", False), ("b", False)}
    assert suspects(run(node("n"), placed(job("j"), "n"), job("k"))) == set()
    assert suspects(run(node("n", device("n", refusal="no")), placed(job("j"), "n"))) == set()


@pytest.mark.parametrize(
    ("doubt", "decision", "now", "lists"),
    [
        (Doubt(), lost("a"), 0.0, True),
        (Doubt(), waiting("a", "b"), 0.0, True),
        (Doubt(), run(node("n"), placed(job("j"), "n")), 0.0, False),
        (confirmed(lost("a")), lost("a", "b"), 104.9, False),
        (confirmed(lost("a")), lost("a", "b"), 105.0, True),
        (confirmed(lost("a")), lost("a"), 159.9, False),
        (confirmed(lost("a", "b")), lost("a"), 159.9, False),
        (confirmed(lost("a", "b")), lost("a"), 160.0, True),
        (confirmed(waiting("a", "b")), lost("a"), 105.0, True),
    ],
)
def test_new_suspects_call_for_a_listing_and_old_ones_for_one_a_minute(
    doubt: Doubt, decision: Decision, now: float, lists: bool
) -> None:
    assert doubt.calls_for_listing(decision, now) == lists


def test_only_a_confirmed_loss_is_written() -> None:
    decision = lost("a", "b")
    doubt = confirmed(lost("a"))
    assert [found.job.name for found in decision.outcomes if doubt.holds_back(found)] == ["b"]
    assert not any(
        Doubt().holds_back(found) for found in run(node("n", device("n", refusal="no")), placed(job("j"), "n")).outcomes
    )
    assert confirmed(waiting("a", "b")).holds_back(lost("a").outcomes[0])


def test_a_node_that_was_heard_has_to_be_confirmed_anew() -> None:
    doubt = confirmed(lost("a", "b")).after(lost("b"))
    assert doubt.confirmed == {("b", True)}
    assert doubt.asked == 100.0
    assert doubt.calls_for_listing(lost("a", "b"), 105.0)
