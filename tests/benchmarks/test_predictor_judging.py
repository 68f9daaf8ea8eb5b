"""How predictions are judged."""

import pytest
from predicting.judging import errors, frozen, harli, learned, online
from predicting.measured import Measured

from rowen.runtime.coserve.load import Load


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


def test_processor_time_in_place_of_time() -> None:
    assert steps(4)[0].undisturbed.seconds == 0.009
