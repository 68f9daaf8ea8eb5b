import random
from dataclasses import replace

import pytest
from coserve_planning.machines import step_seconds

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.step_model import StepModel, features

FULL = Load(4, 400, 20, 300, 10, 200, 6, 90)


def drawn(draw: random.Random) -> Load:
    rows, ride, batch, prompt = draw.randint(0, 8), draw.choice((0, 4, 20)), draw.choice((0, 3)), draw.choice((0, 50))
    each = draw.randint(1, 400)
    return Load(rows, rows * each, prompt, prompt * each, ride, ride * each, batch, batch * each)


def taught(count: int = 600) -> StepModel:
    model, draw = StepModel(), random.Random(4)
    for _ in range(count):
        load = drawn(draw)
        if load != Load():
            model.observe(load, step_seconds(load))
    return model


TAUGHT = taught()


def test_features() -> None:
    # Forty tokens: all of the pieces up to 32, and 8 of the next.
    pieces = [1, 3, 4, 8, 16, 8, 0, 0, 0]
    assert features(FULL) == [1, *pieces, 4, 400, 300, 200, 90, 1, 10, 1, 6]
    assert features(Load(1, 7)) == [1, 1, *[0] * 8, 1, 7, 0, 0, 0, 0, 0, 0, 0]
    assert features(Load(300, 0))[1:10] == [1, 3, 4, 8, 16, 32, 64, 128, 44]


@pytest.mark.parametrize("seed", range(8))
def test_learns_what_steps_take(seed: int) -> None:
    load = drawn(random.Random(seed + 100))
    alone, added = TAUGHT.stages(load)
    assert alone + added == pytest.approx(step_seconds(load), rel=0.03)
    assert alone == pytest.approx(step_seconds(replace(load, ride_tokens=0, ride_context=0)), rel=0.03)


def test_the_stages_are_the_features_times_the_coefficients() -> None:
    for load in (FULL, Load(1, 7), Load(0, 0, 0, 0, 300, 20), replace(FULL, prefill_tokens=0), Load(32), Load(256)):
        told = sum(map(float.__mul__, features(load), TAUGHT._squares.coefficients))
        assert sum(TAUGHT.stages(load)) == pytest.approx(told)


def test_nothing_is_added_where_nothing_rides() -> None:
    assert TAUGHT.stages(Load(4, 400))[1] == 0.0
    assert TAUGHT.stages(replace(FULL, ride_context=0))[1] > 0.0


def test_a_model_that_saw_nothing() -> None:
    # 20 ms, 4 tokens of 1 ms and their rows of half of one, and 400 tokens that they attend to.
    assert StepModel().stages(Load(4, 400)) == (pytest.approx(0.0264), 0.0)
    # 16 tokens more of 1.2 ms, and 2 ms for the window.
    assert StepModel().stages(Load(4, 400, ride_tokens=16, ride_context=1000))[1] == pytest.approx(0.0222)


def test_it_says_whether_it_says_something_else_now() -> None:
    model = StepModel()
    assert [model.observe(Load(1, 7), 0.02) for _ in range(72)] == [True] * 64 + [False] * 7 + [True]
