"""What was worked out of a report lives as long as the report."""

from dataclasses import replace

from scheduler.builders import GIB, NOW, device, node

from rowen.scheduler.side_by_side import side_by_side


def test_a_heartbeat_keeps_what_was_worked_out_of_the_report() -> None:
    old = node("n", device("n", available=(GIB,)))
    old.lent["cpu0", None, 1, 0] = 0.5  # type: ignore[index]
    old.lockstep["cpu0", "cpu1"] = 0.25
    figures = old.figures
    later = replace(old, heard=NOW + 5.0, ready=False, labels={"zone": "a"}).keeping(old)
    assert (later.heard, later.ready) == (NOW + 5.0, False)
    assert later.lent is old.lent
    assert later.lockstep == {("cpu0", "cpu1"): 0.25}
    assert later.figures is figures


def test_a_new_report_is_worked_out_anew() -> None:
    old = node("n", device("n", idle=0.5))
    old.lockstep["cpu0", "cpu1"] = 0.25
    assert side_by_side([old])[:, 0].tolist() == [0.5]
    later = replace(old, devices=(device("n", idle=0.75),)).keeping(old)
    assert later.lockstep == {}
    assert side_by_side([old, later])[:, 0].tolist() == [0.5, 0.75]
