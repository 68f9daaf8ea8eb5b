from dataclasses import replace

import pytest
from coserve_planning.machines import LOADS, riding, step_seconds, taught

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.predictor import Predictor
from rowen.runtime.coserve.planning.search import most_tokens

DECODE = Load(4, 800)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("tokens", [0, 16, 100])
def test_knows_what_it_was_taught(load: Load, tokens: int) -> None:
    ridden = riding(load, tokens)
    assert TAUGHT.seconds(ridden) == pytest.approx(step_seconds(ridden), rel=0.03)


TAUGHT = taught()


def test_riding_is_the_prediction_for_each_size() -> None:
    # What a window's tokens attend to is not known yet: it is as it was.
    found = TAUGHT.riding(DECODE)
    for tokens in (0, 1, 8, 40, 200):
        assert found(tokens) == pytest.approx(TAUGHT.seconds(riding(DECODE, tokens)), rel=0.001)


def test_with_rows_is_the_prediction_for_each_size() -> None:
    predictor = taught()
    for _ in range(60):
        for tokens in (4, 40):
            load = replace(DECODE, row_tokens=tokens, row_context=50 * tokens)
            predictor.observe(load, step_seconds(load))
    found = predictor.with_rows(DECODE)
    for tokens in (0, 4, 40):
        load = replace(DECODE, row_tokens=tokens, row_context=50 * tokens)
        assert found(tokens) == pytest.approx(predictor.seconds(load), rel=0.001)
        assert found(tokens) == pytest.approx(step_seconds(load), rel=0.05)


def test_what_was_measured_counts_more_than_the_model() -> None:
    # Of all loads this one takes twice as long as it should.
    predictor, odd = taught(), riding(DECODE, 30)
    for _ in range(12):
        predictor.observe(odd, 2 * step_seconds(odd))
        for load in LOADS:
            predictor.observe(riding(load, 64), step_seconds(riding(load, 64)))
    assert predictor.seconds(odd) > 1.6 * step_seconds(odd)
    assert predictor.seconds(riding(DECODE, 64)) == pytest.approx(step_seconds(riding(DECODE, 64)), rel=0.1)
    assert predictor.seconds(DECODE) == pytest.approx(step_seconds(DECODE), rel=0.05)


@pytest.mark.parametrize("slowness", [0.6, 1.8])
def test_another_machine_is_known_within_three_steps(slowness: float) -> None:
    predictor = taught()
    for load in (LOADS[4], LOADS[7], LOADS[10]):
        predictor.observe(load, slowness * step_seconds(load))
    for load in (LOADS[1], LOADS[12], riding(DECODE, 48)):
        assert predictor.seconds(load) == pytest.approx(slowness * step_seconds(load), rel=0.1)


def dear(load: Load) -> float:
    """Where windows cost more than they were taught to."""
    alone = step_seconds(replace(load, ride_tokens=0, ride_context=0))
    return alone + 2.5 * (step_seconds(load) - alone)


def test_windows_that_cost_more_are_known_within_three_steps() -> None:
    predictor = taught()
    for load in (LOADS[4], LOADS[7], LOADS[10]):
        predictor.observe(riding(load, 40), dear(riding(load, 40)))
    for load in (LOADS[1], LOADS[12]):
        assert predictor.seconds(riding(load, 60)) == pytest.approx(dear(riding(load, 60)), rel=0.15)
        assert predictor.seconds(load) == pytest.approx(step_seconds(load), rel=0.03)


def many_seconds(load: Load) -> float:
    """Of many requests: a window's tokens take little of the step."""
    own = 0.015 + 0.0002 * load.decode_rows + 1e-6 * load.decode_context
    return own + 0.0001 * load.ride_tokens + 1e-7 * load.ride_context


def test_after_a_slow_moment_windows_grow_again_where_small_ones_tell_nothing() -> None:
    predictor, busy = Predictor(), Load(8, 1600)
    for _ in range(6):
        for load in LOADS:
            for tokens in (0, 4, 16, 48, 128):
                predictor.observe(riding(load, tokens), many_seconds(riding(load, tokens)))

    def fitting() -> int:
        return max(4, most_tokens(predictor.riding(busy), 1.3 * many_seconds(busy), 512))

    usual = fitting()
    for _ in range(3):
        predictor.observe(riding(busy, usual), 2 * many_seconds(riding(busy, usual)))
    assert fitting() < 0.3 * usual
    for _ in range(1000):
        predictor.observe(riding(busy, fitting()), many_seconds(riding(busy, fitting())))
    assert fitting() > 0.95 * usual


def test_what_windows_cost_is_not_forgotten_by_steps_that_cannot_tell() -> None:
    predictor = taught()
    for load in (LOADS[4], LOADS[7], LOADS[10]):
        predictor.observe(riding(load, 40), dear(riding(load, 40)))
    before = predictor._riding.value
    small = riding(Load(8, 4000, prefill_tokens=200, prefill_context=20000), 2)
    for _ in range(500):
        predictor.observe(small, dear(small))
    assert predictor._riding.value == before
    # And their kind is learned.
    assert predictor._cell(small).count >= 500


def test_what_did_not_come_for_long_is_as_if_it_had_never_come() -> None:
    predictor, odd = taught(), riding(DECODE, 30)
    for _ in range(12):
        predictor.observe(odd, 2 * step_seconds(odd))
        for load in LOADS:
            predictor.observe(riding(load, 64), step_seconds(riding(load, 64)))
    for _ in range(2000):
        predictor.observe(LOADS[0], step_seconds(LOADS[0]))
    assert predictor.seconds(odd) > 1.6 * step_seconds(odd)
    for _ in range(400):
        predictor.observe(LOADS[0], step_seconds(LOADS[0]))
    assert predictor.seconds(odd) == pytest.approx(step_seconds(odd), rel=0.1)
    # It begins anew.
    predictor.observe(odd, step_seconds(odd))
    assert predictor.seconds(odd) == pytest.approx(step_seconds(odd), rel=0.1)


def test_one_stall_changes_little() -> None:
    predictor = taught()
    before = [predictor.seconds(load) for load in LOADS]
    predictor.observe(DECODE, 3.0)
    predictor.observe(riding(DECODE, 16), 3.0)
    for load, seconds in zip(LOADS, before, strict=True):
        assert predictor.seconds(load) == pytest.approx(seconds, rel=0.03)


def test_a_step_of_no_time_says_nothing() -> None:
    predictor = taught()
    before, version = predictor.seconds(DECODE), predictor.version
    for _ in range(10):
        predictor.observe(DECODE, 0.0)
    assert (predictor.seconds(DECODE), predictor.version) == (before, version)


def test_what_it_says_is_another_version_when_it_differs() -> None:
    predictor = Predictor()
    assert predictor.version == 0
    predictor.observe(DECODE, 0.03)
    assert predictor.version == 1
    predictor = taught(20)
    version = predictor.version
    for _ in range(3):
        predictor.observe(riding(DECODE, 16), 3 * step_seconds(riding(DECODE, 16)))
    assert predictor.version > version


def test_so_many_more_may_be_tried() -> None:
    predictor = Predictor()
    assert predictor.most_more_tokens(DECODE) == 12
    predictor.observe(Load(1, 7, 4, 10, 20, 30, 5, 50), 0.1)
    assert predictor.most_more_tokens(DECODE) == 56
    assert predictor.most_more_tokens(Load(1, 7, 4, 10, 0, 0, 5, 50)) == 50


def test_parts_are_of_their_phase() -> None:
    predictor = Predictor()
    for _ in range(30):
        for tokens in (8, 64):
            predictor.observe_part("Head", tokens, 0, 0.001 + 0.0004 * tokens)
            predictor.observe_part("Backward", tokens, 100 * tokens, 0.001 + 0.0002 * tokens)
    assert predictor.part_seconds("Head", 32, 0) == pytest.approx(0.0138, rel=0.02)
    assert predictor.part_seconds("Backward", 32, 3200) == pytest.approx(0.0074, rel=0.02)
    assert predictor.part_tokens("Head", 0.0214, 0.0) == pytest.approx(51, abs=1)
    assert predictor.part_tokens("Backward", 0.0214, 100.0) == pytest.approx(102, abs=2)


def test_a_part_without_tokens_or_time_says_nothing() -> None:
    predictor = Predictor()
    before = predictor.part_seconds("Head", 8, 0)
    predictor.observe_part("Head", 0, 0, 1.0)
    predictor.observe_part("Head", 8, 0, 0.0)
    assert predictor.part_seconds("Head", 8, 0) == before


def test_kinds_of_loads_are_no_leak() -> None:
    predictor = Predictor()
    for tokens in range(5000):
        predictor.observe(Load(1 + tokens % 40, 0, ride_tokens=8 * tokens, ride_context=1), 0.01)
    assert len(predictor._cells) <= 4096
