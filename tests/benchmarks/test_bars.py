"""Bars: kept, missed, or without a figure, in the object and in what is printed."""

import json
from typing import Any

import pytest
from reporting.bars import Bars, bar_lines, judged
from reporting.report import Missing, print_report, report

BARS: Bars = {"speed": (3.0, "at least"), "delay": (10.0, "at most"), "lost": (0.0, "at most")}


def made(speed: float, delay: float | Missing) -> dict[str, Any]:
    figures = {"speed": (speed, "1/s"), "delay": (delay, "ms"), "lost": (0.0, "jobs"), "other": (1.0, "1")}
    return report("sample", 0, figures, {}, bars=BARS)


@pytest.mark.parametrize(("speed", "delay", "kept"), [(3.0, 10.0, (True, True)), (2.99, 10.01, (False, False))])
def test_the_bar_itself_is_kept_and_what_is_worse_is_not(speed: float, delay: float, kept: tuple[bool, bool]) -> None:
    bars = made(speed, delay)["bars"]
    assert (bars["speed"]["kept"], bars["delay"]["kept"]) == kept
    assert bars["speed"] | {"kept": None} == {"bar": 3.0, "direction": "at least", "kept": None}


def test_without_a_value_there_is_no_verdict() -> None:
    found = made(3.0, Missing("nobody waited"))
    assert found["bars"]["delay"]["kept"] is None
    assert bar_lines(found)[1] == "delay: None (at most 10.0): no figure"


def test_a_bar_of_no_figure_is_refused() -> None:
    with pytest.raises(KeyError, match="speeed"):
        judged(made(3.0, 1.0)["figures"], {"speeed": (3.0, "at least")})


def test_verdicts_are_printed_beside_both_kinds_of_report(capsys: pytest.CaptureFixture[str]) -> None:
    found = made(2.0, 1.0)
    print_report(found, False)
    assert "speed: 2.0 (at least 3.0): MISSED" in capsys.readouterr().out.splitlines()
    print_report(found, True)
    told = capsys.readouterr()
    assert json.loads(told.out)["bars"]["speed"]["kept"] is False
    assert told.err.splitlines() == bar_lines(found)
    assert told.err.splitlines()[2] == "lost: 0.0 (at most 0.0): kept"


def test_without_bars_there_are_no_verdicts() -> None:
    assert "bars" not in report("sample", 0, {}, {})
