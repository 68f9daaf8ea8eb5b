"""How predictions are judged."""

from pathlib import Path

import pytest
from predicting import judging
from predicting.judging import errors, frozen, harli, learned, noise, online, planner_microseconds
from predicting.measured import Measured
from predicting.picture import draw
from predictor import raw_of
from reporting.report import Missing

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.planner import Plan, Planner


def steps(count: int) -> list[Measured]:
    loads = [Load(rows, rows * 100, ride_tokens=ride, ride_context=ride * 50) for rows in (1, 4) for ride in (0, 16)]
    return [
        Measured(load, 0.01 + 0.001 * (load.decode_rows + load.ride_tokens), 0.009)
        for load in loads * (count // len(loads))
    ]


def test_errors_are_parts_of_what_was_measured() -> None:
    found = errors([1.1, 2.0, 3.0, 8.0], [1.0, 2.0, 4.0, 8.0])
    assert found.mean == pytest.approx(0.0875)
    assert found.median == pytest.approx(0.05)
    assert found.p95 == pytest.approx(0.25)
    # 0.01 and 1 of the squares are left of those around 3.75.
    assert found.r_squared == pytest.approx(1 - 1.01 / 28.75)
    assert found.steps == 4


def test_straight_lines_meet_what_is_one() -> None:
    table = steps(80)
    assert errors(harli(table, table), [step.seconds for step in table]).mean < 1e-6


def test_a_frozen_predictor_does_not_learn() -> None:
    slow = [Measured(step.load, 2 * step.seconds, step.processor_seconds) for step in steps(40)]
    predictor = learned(steps(80))
    assert frozen(predictor, slow)[-4:] == frozen(predictor, slow)[:4]
    assert online(predictor, slow)[-1] == pytest.approx(slow[-1].seconds, rel=0.1)


def test_noise_is_of_steps_that_differ_in_nothing() -> None:
    same, longer = Load(4, 400, ride_tokens=16, ride_context=800), Load(4, 400, ride_tokens=16, ride_context=8000)
    table = [Measured(load, seconds, 0.0) for load, seconds in ((same, 0.010), (longer, 0.020), (same, 0.011))]
    assert noise(table, riding=True) == pytest.approx(0.1 / 2**0.5)
    assert isinstance(noise(table[:2], riding=True), Missing)
    assert isinstance(noise(table, riding=False), Missing)


def test_each_decision_that_is_timed_finds_room_for_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int]] = []

    class Watched(Planner):
        def plan(self, load: Load, waiting_tokens: int, has_parts: bool, least_part_seconds: float = 0.0) -> Plan:
            found = super().plan(load, waiting_tokens, has_parts, least_part_seconds)
            made.append((self.predictor.version, found.ride_tokens))
            return found

    monkeypatch.setattr(judging, "Planner", Watched)
    monkeypatch.setattr(judging, "_ROUNDS", 7)
    table = steps(80)
    anew, again = planner_microseconds(learned(table), table)
    assert 0 < again < anew
    versions = [version for version, _ in made]
    assert len(made) == 80 + 7
    # Nothing is kept of what was decided before, and then all.
    assert len(set(versions[:80])) == 80
    assert len(set(versions[80:])) == 1
    assert all(tokens > 0 for _, tokens in made)


def test_processor_time_in_place_of_time() -> None:
    assert steps(4)[0].undisturbed.seconds == 0.009


def test_a_stored_run_is_drawn_by_its_steps_alone(tmp_path: Path) -> None:
    first, rest = steps(600), steps(80)
    raw = [raw_of(step) for step in (*first, *rest)]
    draw({"steps": raw, "learned_steps": len(first), "figures": {}}, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 0
