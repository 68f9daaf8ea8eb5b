"""Devices that take one job at a time, since their service misses its SLO beside offline work."""

from dataclasses import replace

from scheduler.builders import NOW, device, job, node, outcome, placed, pod, run

from rowen.scheduler.decision import Action
from rowen.scheduler.device import DeviceView
from rowen.scheduler.snapshot import NodeView

REDUCED = "SLO guard: one at a time"


def reduced(name: str = "n", id_: str = "cpu0") -> DeviceView:
    return device(name, id_, restraint=REDUCED)


def several(*devices: DeviceView) -> NodeView:
    return node("n", *devices, slots=4 * len(devices))


def test_all_but_the_first_in_the_queue_go_and_may_go_elsewhere_at_once() -> None:
    low, old = placed(job("low", created=1.0), "n"), placed(job("old", created=2.0, priority=1), "n")
    new = placed(job("new", created=3.0, priority=1), "n")
    decision = run(several(reduced()), low, old, new)
    assert outcome(decision, "old").action is Action.KEEP
    for name in ("low", "new"):
        lost = outcome(decision, name)
        assert lost.loss is not None
        assert (lost.action, lost.loss.reason) == (Action.REVOKE, "HarvestReduced")
        assert lost.message == f"n/cpu0: {REDUCED}: ns/old stays"
    assert decision.backoffs == {}
    again = run(several(reduced()), node("m"), old, replace(new, placement=None))
    found = outcome(again, "new")
    assert found.placement is not None
    assert found.placement.node == "m"


def test_one_alone_stays_and_one_comes_where_none_is() -> None:
    assert outcome(run(several(reduced()), placed(job("a"), "n")), "a").action is Action.KEEP
    decision = run(several(reduced()), job("a"), job("b"))
    assert [outcome(decision, name).action for name in ("a", "b")] == [Action.PLACE, Action.WAIT]
    assert outcome(decision, "b").message == f"no candidate holds: n/cpu0: {REDUCED}: cpu0 has one"


def test_a_pod_on_its_way_out_is_waited_for() -> None:
    gone = job("gone")
    decision = run(several(reduced()), pod(gone, "n"), job("a"))
    assert outcome(decision, "a").action is Action.WAIT


def test_devices_without_a_restraint_are_shared_as_before() -> None:
    jobs = [placed(job(name), "n", "free") for name in ("a", "b")]
    decision = run(several(reduced(), device("n", "free")), *jobs, placed(job("c"), "n"))
    assert {outcome(decision, name).action for name in ("a", "b", "c")} == {Action.KEEP}


def test_a_job_on_several_devices_counts_on_each() -> None:
    wide = placed(job("wide", devices=2, created=1.0), "n", "cpu0", "cpu1")
    late = placed(job("late", created=2.0), "n", "cpu1")
    decision = run(several(reduced(), reduced("n", "cpu1")), wide, late)
    assert outcome(decision, "wide").action is Action.KEEP
    assert outcome(decision, "late").message == f"n/cpu1: {REDUCED}: ns/wide stays"
    # The first in the queue stays, and the whole job in its way goes.
    early = placed(job("early", created=0.0), "n", "cpu1")
    decision = run(several(reduced(), reduced("n", "cpu1")), wide, early)
    assert outcome(decision, "wide").message == f"n/cpu1: {REDUCED}: ns/early stays"


def test_a_job_that_goes_for_another_reason_is_not_in_the_way() -> None:
    first = replace(placed(job("first", created=1.0), "n"), suspended=True)
    decision = run(several(reduced()), first, placed(job("second", created=2.0), "n"))
    assert outcome(decision, "second").action is Action.KEEP


def test_a_node_that_is_gone_has_no_surplus() -> None:
    world = run(node("m"), placed(job("a"), "n", renewed=NOW), placed(job("b"), "n", renewed=NOW))
    assert {outcome(world, name).action for name in ("a", "b")} == {Action.KEEP}
