import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.spatial import LEAST, WHOLE, SharePredictor, Shares, shares

DECODE = Load(4, 800)


def alone(load: Load, tenths: int) -> float:
    """Weights need a third of the device, what is computed all of it."""
    waiting = 0.012 * max(1.0, 3.3 / tenths)
    return (
        waiting + (0.0004 * load.decode_rows + 2e-7 * load.decode_context + 0.0003 * load.prefill_tokens) * 10 / tenths
    )


def beside(load: Load, tenths: int, tuner: int) -> float:
    return alone(load, tenths) * (0.1 * tenths + 0.15 * tuner if tuner else 1.0)


def taught() -> SharePredictor:
    predictor, draw = SharePredictor(), random.Random(1)
    for _ in range(30):
        for engine in range(LEAST, WHOLE + 1):
            rows = draw.choice((1, 4, 16))
            load = Load(rows, rows * draw.randint(10, 512), draw.choice((0, 0, 64)))
            predictor.observe(load, engine, 0, alone(load, engine))
    for _ in range(30):
        for engine in range(LEAST, WHOLE):
            load = Load(4, draw.randint(40, 2000))
            predictor.observe(load, engine, WHOLE - engine, beside(load, engine, WHOLE - engine))
    return predictor


TAUGHT = taught()


@pytest.mark.parametrize("tenths", range(LEAST, WHOLE + 1))
def test_what_a_step_takes_alone_on_each_share(tenths: int) -> None:
    assert TAUGHT.seconds(DECODE, tenths, 0) == pytest.approx(alone(DECODE, tenths), rel=0.03)
    prompt = Load(4, 800, 64)
    assert TAUGHT.seconds(prompt, tenths, 0) == pytest.approx(alone(prompt, tenths), rel=0.05)


@pytest.mark.parametrize("tenths", range(LEAST, WHOLE))
def test_what_it_takes_beside_a_tuner(tenths: int) -> None:
    tuner = WHOLE - tenths
    assert TAUGHT.seconds(DECODE, tenths, tuner) == pytest.approx(beside(DECODE, tenths, tuner), rel=0.08)


def test_a_share_that_was_never_measured_is_as_much_slower_as_it_is_smaller() -> None:
    predictor = SharePredictor()
    assert predictor.seconds(DECODE, 10, 0) == pytest.approx(0.0228)
    assert predictor.seconds(DECODE, 5, 0) == pytest.approx(0.0456)


def test_nothing_becomes_faster_beside_another() -> None:
    predictor = SharePredictor()
    for _ in range(20):
        predictor.observe(DECODE, 5, 0, 0.02)
        predictor.observe(DECODE, 5, 5, 0.001)
    assert predictor.seconds(DECODE, 5, 5) >= predictor.seconds(DECODE, 5, 0)


def test_the_share_whose_time_comes_closest_below_the_bound() -> None:
    bound = 0.04
    found = shares(TAUGHT, DECODE, bound, tuner_waits=False)
    times = {tenths: beside(DECODE, tenths, WHOLE - tenths) for tenths in range(LEAST, WHOLE)}
    assert found.engine == max((tenths for tenths, seconds in times.items() if seconds <= bound), key=times.__getitem__)
    assert found.tuner == WHOLE - found.engine
    assert found.reason == f"{found.engine} tenths are enough for the engine to be in time"


def test_a_looser_bound_leaves_the_tuner_more() -> None:
    tight, loose = (shares(TAUGHT, DECODE, bound, tuner_waits=False) for bound in (0.025, 0.06))
    assert LEAST < tight.tuner < loose.tuner


def test_everything_is_the_engines_while_the_tuner_waits() -> None:
    assert shares(TAUGHT, DECODE, 1.0, tuner_waits=True) == Shares(
        10, 0, "fine-tuning waits: the engine has everything"
    )


def test_everything_is_the_engines_where_no_share_is_enough() -> None:
    assert shares(TAUGHT, DECODE, 0.001, tuner_waits=False) == Shares(
        10, 0, "the engine needs everything to be in time"
    )


def test_the_tuner_has_all_but_the_least_share_without_requests() -> None:
    assert shares(TAUGHT, Load(), 0.001, tuner_waits=False) == Shares(1, 9, "no request is there")


@pytest.mark.parametrize("load", [Load(1, 10), Load(0, 0, 64)])
def test_a_request_is_one_that_decodes_or_has_a_prompt(load: Load) -> None:
    assert shares(TAUGHT, load, 0.0001, tuner_waits=False).engine == WHOLE


@settings(max_examples=60)
@given(st.integers(1, 32), st.integers(0, 512), st.floats(0.001, 1.0))
def test_what_is_chosen_is_predicted_to_be_in_time(rows: int, each: int, bound: float) -> None:
    load = Load(rows, rows * each)
    found = shares(TAUGHT, load, bound, tuner_waits=False)
    assert found.engine + found.tuner == WHOLE
    if found.tuner:
        chosen = TAUGHT.seconds(load, found.engine, found.tuner)
        assert chosen <= bound
        for tenths in range(LEAST, WHOLE):
            other = TAUGHT.seconds(load, tenths, WHOLE - tenths)
            assert other <= chosen or other > bound
