from dataclasses import replace

import pytest
from coserve_planning.machines import LOADS, riding, step_seconds, taught

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.predictor import Predictor

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
        assert found(tokens) == pytest.approx(step_seconds(load), rel=0.06)


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


def test_small_windows_that_take_much_tell_it() -> None:
    """By what they take, not by what they are thought to: a newcomer's tokens may cost many times what is usual."""
    predictor, load = taught(), riding(LOADS[13], 4)
    added = step_seconds(load) - step_seconds(LOADS[13])
    assert added < 0.2 * step_seconds(load)
    for _ in range(3):
        predictor.observe(load, step_seconds(LOADS[13]) + 4 * added)
    larger = riding(LOADS[13], 30)
    added = step_seconds(larger) - step_seconds(LOADS[13])
    assert predictor.seconds(larger) == pytest.approx(step_seconds(LOADS[13]) + 4 * added, rel=0.15)


def test_another_time_of_a_kind_of_load_is_believed_with_the_third_step() -> None:
    """Of small windows that tell nothing of others, too."""
    predictor, small = taught(), riding(Load(8, 4000, prefill_tokens=200, prefill_context=20000), 2)
    for _ in range(3):
        predictor.observe(small, 1.15 * step_seconds(small))
    before = predictor.seconds(small)
    for _ in range(3):
        predictor.observe(small, 1.6 * step_seconds(small))
    assert predictor._riders[None].ratio.value == pytest.approx(1.0, abs=0.1)
    assert before < 1.2 * step_seconds(small)
    assert predictor.seconds(small) == pytest.approx(1.6 * step_seconds(small), rel=0.12)


def test_the_step_by_which_windows_are_another_ratio_says_nothing_more() -> None:
    predictor, load = taught(), riding(DECODE, 40)
    for _ in range(2):
        predictor.observe(load, dear(load))
    cell = predictor._cell(load)
    before = cell.value, cell.count
    predictor.observe(load, dear(load))
    assert predictor._riders[None].ratio.value > 2
    assert (cell.value, cell.count) == before


def test_one_cold_moment_leaves_windows_what_they_have() -> None:
    predictor, load = taught(), riding(DECODE, 40, rider=5)
    before = predictor.seconds(load)
    # The very first window of a guest, and the first of its kind.
    predictor.observe(load, 10 * step_seconds(load))
    assert predictor.seconds(load) == pytest.approx(before, rel=0.1)
    assert predictor.seconds(DECODE) == pytest.approx(step_seconds(DECODE), rel=0.05)


def test_the_first_that_a_machine_is_judged_by_may_be_a_stall() -> None:
    predictor = Predictor()
    for _ in range(4):
        predictor.observe(DECODE, 0.02)
    predictor.observe(DECODE, 0.2)
    assert predictor.seconds(DECODE) == pytest.approx(0.02, rel=0.15)


def test_no_window_is_thought_to_cost_more_than_eight_times_the_usual() -> None:
    predictor, load = taught(), riding(DECODE, 2)
    for _ in range(3):
        predictor.observe(load, 20 * step_seconds(load))
    assert predictor._riders[None].ratio.value == 8.0


def test_what_is_forgotten_is_another_version() -> None:
    predictor, small = taught(40), riding(Load(8, 1600), 1)
    predictor._riders[None].ratio.value = 1.2
    versions, values = [predictor.version], [1.2]
    for _ in range(6):
        # Of a tenth to a fifth of the step by what is thought.
        predictor.observe(small, step_seconds(small))
        versions.append(predictor.version)
        values.append(predictor._riders[None].ratio.value)
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(1 + 0.2 * (255 / 256) ** 6)
    # Not only where the model was fitted.
    assert len(set(versions)) == 7


def test_what_a_guests_windows_cost_says_nothing_of_anothers() -> None:
    predictor = taught()
    for load in (LOADS[4], LOADS[7], LOADS[10], LOADS[13]) * 3:
        costly, usual = riding(load, 40, 200, rider=1), riding(load, 40, 50, rider=2)
        predictor.observe(costly, dear(costly))
        predictor.observe(usual, step_seconds(usual))
    for load in (LOADS[4], LOADS[12]):
        for tokens in (40, 60):
            costly, usual = riding(load, tokens, 200, rider=1), riding(load, tokens, 50, rider=2)
            assert predictor.seconds(costly) == pytest.approx(dear(costly), rel=0.15)
            assert predictor.seconds(usual) == pytest.approx(step_seconds(usual), rel=0.1)
            # What their tokens attend to is followed for each, too.
            assert predictor.riding(load, 1)(tokens) == pytest.approx(dear(costly), rel=0.2)
            assert predictor.riding(load, 2)(tokens) == pytest.approx(step_seconds(usual), rel=0.1)


def test_kinds_of_loads_are_of_the_guest_whose_window_rides() -> None:
    # Windows so small that they say nothing of others.
    predictor, prompt = taught(), Load(8, 4000, prefill_tokens=200, prefill_context=20000)
    for _ in range(12):
        for rider, times in ((1, 1.3), (2, 1.0)):
            load = riding(prompt, 2, rider=rider)
            predictor.observe(load, times * step_seconds(load))
    one, other = (predictor.seconds(riding(prompt, 2, rider=rider)) for rider in (1, 2))
    assert one > 1.2 * other
    # Without a window they are everybody's.
    assert predictor.seconds(replace(DECODE, rider=1)) == predictor.seconds(replace(DECODE, rider=2))


def test_a_newcomer_is_thought_to_cost_as_much_as_anybody_and_has_small_windows_first() -> None:
    predictor = taught()
    for load in (LOADS[4], LOADS[7], LOADS[10]):
        predictor.observe(riding(load, 40, 300, rider=1), dear(riding(load, 40, 300)))
        predictor.observe(riding(load, 40, 50, rider=2), step_seconds(riding(load, 40, 50)))
    assert predictor.riding(DECODE, 3)(20) == pytest.approx(predictor.riding(DECODE, 1)(20), rel=0.02)
    assert predictor.riding(DECODE, 3)(20) > 1.3 * predictor.riding(DECODE, 2)(20)
    assert [predictor.most_ride_tokens(DECODE, rider) for rider in (1, 3)] == [80, 16]
    version = predictor.version
    predictor.observe(riding(DECODE, 16, rider=3), step_seconds(riding(DECODE, 16)))
    assert predictor.most_ride_tokens(DECODE, 3) == 32
    # A plan that was made before would keep it small.
    assert predictor.version > version


def test_who_comes_after_all_have_gone_is_thought_to_be_like_them() -> None:
    predictor = taught()
    for load in (LOADS[4], LOADS[7], LOADS[10]):
        predictor.observe(riding(load, 40, rider=1), dear(riding(load, 40)))
    for _ in range(8):
        predictor.observe_part("Head", 16, 0, 0.04, 1)
    costly, least = predictor.riding(DECODE, 1)(20), predictor.least_part_seconds("Head", 1)
    predictor.drop(1)
    predictor.drop(1)
    assert 1 not in predictor._riders._here
    assert predictor.riding(DECODE, 2)(20) == pytest.approx(costly, rel=0.05)
    assert predictor.least_part_seconds("Head", 2) == pytest.approx(least)
    predictor.drop(2)
    # One that had no parts of its own.
    assert predictor.riding(DECODE, 4)(20) == pytest.approx(costly, rel=0.05)
    predictor.drop(4)
    assert predictor.least_part_seconds("Head", 3) == pytest.approx(least)


def test_parts_are_of_their_guest() -> None:
    predictor = Predictor()
    for _ in range(40):
        for tokens in (4, 32):
            predictor.observe_part("Backward", tokens, 2000 * tokens, 0.001 + 0.002 * tokens, 1)
            predictor.observe_part("Backward", tokens, 64 * tokens, 0.001 + 0.0002 * tokens, 2)
    assert predictor.part_tokens("Backward", 0.021, 1) == pytest.approx(10, abs=1)
    assert predictor.part_tokens("Backward", 0.021, 2) == pytest.approx(64, abs=6)
    assert predictor.part_seconds("Backward", 16, 16 * 2000, 1) == pytest.approx(0.033, rel=0.05)
    assert predictor.part_seconds("Backward", 16, 16 * 64, 2) == pytest.approx(0.0042, rel=0.05)
    # Nobody has seen one of the third's: they may be as dear as anybody's.
    assert predictor.least_part_seconds("Backward", 3) == predictor.least_part_seconds("Backward", 1)


@pytest.mark.parametrize(
    "other",
    [
        {"decode_rows": 5},
        {"decode_context": 4 * 800},
        {"prefill_tokens": 32},
        {"row_tokens": 4},
        {"ride_tokens": 40},
    ],
)
def test_kinds_of_loads_differ_in_all_that_a_step_is_made_of(other: dict[str, int]) -> None:
    predictor, odd = taught(), replace(DECODE, prefill_tokens=16, row_tokens=16, ride_tokens=16)
    near = replace(odd, **other)
    for _ in range(30):
        predictor._cell(odd).observe(2.0, predictor._steps)
    thought = predictor.seconds(near)
    predictor._cells.clear()
    # What was seen of the one says nothing of the other.
    assert predictor.seconds(near) == thought


def test_what_windows_cost_is_not_forgotten_by_steps_that_cannot_tell() -> None:
    predictor = taught()
    for load in (LOADS[4], LOADS[7], LOADS[10]):
        predictor.observe(riding(load, 40), dear(riding(load, 40)))
    before = predictor._riders[None].ratio.value
    assert before > 2
    small = riding(Load(8, 4000, prefill_tokens=200, prefill_context=20000), 2)
    for _ in range(500):
        predictor.observe(small, dear(small))
    assert predictor._riders[None].ratio.value == before
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
    assert predictor.part_tokens("Head", 0.0214) == pytest.approx(51, abs=1)
    assert predictor.part_tokens("Backward", 0.0214) == pytest.approx(102, abs=2)


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
