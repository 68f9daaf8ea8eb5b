import math
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import pytest
from coserve_planning.machines import LOADS, planner, riding, step_seconds, taught, terms

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.planner import LITTLE_TOKENS, PATIENCE_STEPS, TOO_DEAR, TOO_LONG, Planner
from rowen.runtime.coserve.planning.predictor import Predictor

DECODE = Load(4, 800)
TOKEN = 0.9 * 0.05
"""What of a bound of 50 ms is planned for."""


def test_nothing_waits() -> None:
    found = planner()
    plan = found.plan(DECODE, 0, False)
    assert (plan.ride_tokens, plan.part_seconds, plan.reason) == (0, 0.0, "nothing waits")
    assert not found.riders_wait


def test_as_many_tokens_ride_as_the_tpot_has_room_for() -> None:
    found = planner()
    plan = found.plan(DECODE, 1000, False)
    assert found.riders_wait
    assert plan.part_seconds == 0
    assert plan.reason == "a window rides"
    # 45 ms less 15.0 for the weights, 0.8 for the rows, 0.8 for their context and 2 for the ride: 0.6 ms for each.
    assert plan.ride_tokens == pytest.approx(44, abs=4)
    assert step_seconds(riding(DECODE, plan.ride_tokens)) == pytest.approx(TOKEN, rel=0.05)


def test_parts_get_what_the_step_leaves() -> None:
    plan = planner().plan(DECODE, 0, True)
    assert plan.ride_tokens == 0
    assert plan.part_seconds == pytest.approx(TOKEN - step_seconds(DECODE), rel=0.05)
    assert plan.reason == "parts run after the step"


def test_windows_and_parts_take_turns() -> None:
    found = planner()
    plans = [found.plan(DECODE, 100, True) for _ in range(4)]
    assert [plan.part_seconds > 0 for plan in plans] == [True, False, True, False]
    assert [plan.ride_tokens > 0 for plan in plans] == [False, True, False, True]


def test_parts_alone_get_every_turn() -> None:
    found = planner()
    assert all(found.plan(DECODE, 0, True).part_seconds > 0 for _ in range(3))


def test_nothing_rides_with_a_long_prompt_in_the_step() -> None:
    # An eighth of a second is what a step with a prompt may take.
    found = planner(tpot=10.0)
    long = Load(0, 0, 256, 256 * 128)
    assert found.plan(long, 100, False).ride_tokens == 0
    assert found.plan(long, 100, False).reason == "the step alone takes all the time there is"


def test_a_window_makes_a_step_with_a_prompt_little_longer() -> None:
    found = planner(tpot=10.0)
    # 85 ms, and 2 for any ride: 0.6 ms for each token.
    prompt = Load(0, 0, 144, 144 * 72 // 2)
    plan = found.plan(prompt, 1000, False)
    assert 1 <= plan.ride_tokens <= 6
    assert step_seconds(riding(prompt, plan.ride_tokens)) < 1.06 * step_seconds(prompt)
    # A shorter one has no time for a token.
    assert found.plan(Load(0, 0, 16, 128), 1000, False).ride_tokens == 0


def test_no_parts_run_after_a_prompt() -> None:
    plan = planner(tpot=10.0).plan(Load(0, 0, 16, 128), 0, True)
    assert (plan.part_seconds, plan.ride_tokens) == (0.0, 0)
    assert plan.reason == "a prompt is computed: no parts"


def test_what_decodes_beside_a_prompt_has_its_bound() -> None:
    found = planner()
    prompt = Load(0, 0, 144, 144 * 72 // 2)
    assert found.plan(prompt, 1000, False).ride_tokens > 0
    assert found.plan(replace(prompt, decode_rows=2), 1000, False).ride_tokens == 0


@pytest.mark.parametrize(
    ("load", "bound"),
    [
        (Load(2, 100), TOKEN),
        (Load(2, 100, 256, 256 * 128), TOKEN),
        (Load(0, 0, 256, 256 * 128), 0.125),
        (Load(), 0.1),
        (Load(row_tokens=4), 0.1),
    ],
)
def test_bounds(load: Load, bound: float) -> None:
    assert planner().bound(load) == pytest.approx(bound)


def test_a_step_keeps_new_requests_waiting_for_a_quarter_of_their_bound() -> None:
    assert planner(tpot=1.0).bound(Load(2, 100)) == pytest.approx(0.25)
    assert planner(tpot=1.0).bound(Load(2, 100, 256, 256 * 128)) == pytest.approx(0.125)


@pytest.mark.parametrize("rows", [0, 16])
def test_a_step_with_a_prompt_is_a_twentieth_longer_at_most_with_all_that_rides(rows: int) -> None:
    found, prompt = planner(), Load(0, 0, 64, 64 * 32)
    bound = found.bound(replace(prompt, row_tokens=rows, row_context=rows * 100))
    assert bound == pytest.approx(1.05 * step_seconds(prompt), rel=0.03)


def test_a_step_of_rows_alone_takes_twice_what_the_shortest_one_does() -> None:
    """Also where that is more than a part may take; as long as a new request may be kept waiting, at most."""
    rows = Load(row_tokens=4, row_context=400)
    assert planner(ttft=0.2).bound(rows) == pytest.approx(2 * step_seconds(Load(row_tokens=1)), rel=0.1)
    assert planner(ttft=0.1).bound(rows) == pytest.approx(0.025)
    assert planner(ttft=2.0).bound(rows) == pytest.approx(0.2)


def test_a_part_while_idle_takes_twice_what_the_smallest_does() -> None:
    """Or else, where weights alone take a tenth of the bound to read, each token would have them read anew."""
    assert planner(ttft=0.5).idle_seconds(0.01) == pytest.approx(0.05)
    assert planner(ttft=0.5).idle_seconds(0.04) == pytest.approx(0.08)
    assert planner(ttft=0.5).idle_seconds(0.2) == pytest.approx(0.125)


def test_riders_get_on_beside_rows_alone_whatever_requests_got_before() -> None:
    """No request comes, so none tells that it is served as promised again."""
    found, rows = planner(ttft=0.01), Load(row_tokens=4, row_context=400)
    found.observe_first_token(1.0, 0.0)
    assert not found.kept
    assert [found.plan(rows, 100, False).ride_tokens for _ in range(PATIENCE_STEPS)][-2:] == [0, LITTLE_TOKENS]
    assert all(found.plan(DECODE, 100, False).ride_tokens == 0 for _ in range(2 * PATIENCE_STEPS))


def test_a_part_while_idle_takes_a_tenth_of_the_bound() -> None:
    assert planner(ttft=2.0).idle_part_seconds == pytest.approx(0.2)


def test_no_more_than_twice_as_many_tokens_as_ever_were_measured() -> None:
    found = Planner(terms(tpot=10.0, ttft=100.0), Predictor())
    assert found.plan(DECODE, 1000, False).ride_tokens == 12
    found.observe(riding(DECODE, 12), 0.02)
    assert found.plan(DECODE, 1000, False).ride_tokens == 24


def test_where_nothing_has_room_a_little_rides_now_and_then() -> None:
    found = planner(tpot=0.01)
    plans = [found.plan(DECODE, 100, False) for _ in range(2 * PATIENCE_STEPS)]
    assert [plan.ride_tokens for plan in plans] == ([0] * (PATIENCE_STEPS - 1) + [LITTLE_TOKENS]) * 2
    assert plans[-1].reason == "a short window rides, so that riders get on at all"
    assert plans[0].reason == "the step alone takes all the time there is"


def test_where_nothing_has_room_a_short_part_runs_now_and_then() -> None:
    found = planner(tpot=0.01)
    plans = [found.plan(DECODE, 0, True) for _ in range(PATIENCE_STEPS)]
    assert [plan.part_seconds for plan in plans] == [0.0] * (PATIENCE_STEPS - 1) + [0.002]
    assert plans[-1].reason == "a short part runs, so that riders get on at all"


def test_parts_that_have_no_time_run_now_and_then_and_never_while_promises_are_not_kept() -> None:
    found = planner()
    left = found.plan(DECODE, 0, True).part_seconds
    assert found.plan(DECODE, 0, True, left).part_seconds == left
    plans = [found.plan(DECODE, 0, True, 0.045) for _ in range(2 * PATIENCE_STEPS)]
    assert [plan.part_seconds for plan in plans] == ([0.0] * (PATIENCE_STEPS - 1) + [0.002]) * 2
    assert plans[0].reason == "the smallest part takes longer than there is time"
    late(found)
    assert not any(found.plan(DECODE, 0, True, 0.045).part_seconds for _ in range(3 * PATIENCE_STEPS))


def test_what_had_room_in_between_puts_that_off() -> None:
    found = planner(tpot=0.01)
    for _ in range(PATIENCE_STEPS - 1):
        found.plan(DECODE, 100, False)
    assert found.plan(Load(), 100, False).ride_tokens > LITTLE_TOKENS
    assert found.plan(DECODE, 100, False).ride_tokens == 0


def late(found: Planner) -> None:
    found.observe_tpot(0.07, 0.0)


def test_nothing_rides_regardless_while_requests_do_not_get_what_they_were_promised() -> None:
    found = planner(tpot=0.01)
    late(found)
    assert not found.kept
    assert all(found.plan(DECODE, 100, False).ride_tokens == 0 for _ in range(3 * PATIENCE_STEPS))


def test_requests_that_riders_made_late_leave_them_less() -> None:
    found = planner()
    before = found.plan(DECODE, 0, True).part_seconds
    found.observe_tpot(0.06, 0.02)
    assert found.bound(DECODE) == pytest.approx(TOKEN * math.exp(-0.2 * 0.99))
    assert found.plan(DECODE, 0, True).part_seconds < before - TOKEN * 0.17


def test_requests_that_were_late_by_themselves_leave_riders_what_they_have() -> None:
    found = planner()
    found.observe_tpot(0.06, 0.005)
    assert found.bound(DECODE) == pytest.approx(TOKEN)
    assert not found.kept


def test_what_riders_take_is_counted() -> None:
    found, alone = planner(), planner().predictor.seconds(DECODE)
    found.observe(DECODE, 5.0)
    assert found.rider_seconds == 0
    found.observe_part("Backward", 8, 800, 0.04)
    assert found.rider_seconds == pytest.approx(0.04)
    for ridden in (riding(DECODE, 64), replace(DECODE, row_tokens=64, row_context=6400)):
        found = planner()
        found.observe(ridden, 0.06)
        assert found.rider_seconds == pytest.approx(0.06 - alone)
        # A step that took less than it was predicted to take without riders took none of theirs.
        found.observe(ridden, 0.001)
        assert found.rider_seconds == pytest.approx(0.06 - alone)
    found = planner()
    found.observe(Load(row_tokens=64, row_context=6400), 0.06)
    # Nobody else's.
    assert found.rider_seconds == pytest.approx(0.06)


@pytest.mark.parametrize("load", [DECODE, replace(DECODE, prefill_tokens=8, prefill_context=36)])
def test_a_step_ends_when_the_next_token_is_due(load: Load) -> None:
    found = planner(tpot=0.05, ttft=10.0)
    found.token_pace.due_in = 0.75 * TOKEN
    assert found.bound(load) == pytest.approx(0.75 * TOKEN if load == DECODE else 1.05 * step_seconds(load), rel=0.03)
    found.token_pace.due_in = 0.25 * TOKEN
    assert found.bound(load) == pytest.approx(0.25 * TOKEN)


def test_a_step_never_takes_longer_than_a_token_may() -> None:
    found = planner()
    found.token_pace.due_in = 3.0
    assert found.bound(DECODE) == pytest.approx(TOKEN)


def test_when_a_token_is_due_is_rounded_down() -> None:
    found = planner()
    found.token_pace.due_in = 0.99 * TOKEN
    assert found.bound(DECODE) == pytest.approx(31 / 32 * TOKEN)


def test_who_waits_for_its_first_token_is_not_behind() -> None:
    found = planner()
    found.token_pace.due_in = 0.0
    assert found.bound(Load(0, 0, 256, 256 * 128)) == pytest.approx(0.125)
    assert found.bound(Load()) == pytest.approx(0.1)


def test_nothing_rides_while_somebody_is_behind() -> None:
    found = planner()
    assert found.plan(DECODE, 100, False).ride_tokens > 0
    for due_in in (0.0, -1.0, 0.01):
        found.token_pace.due_in = due_in
        assert found.plan(DECODE, 100, False).reason == "the step alone takes all the time there is"
        assert found.plan(DECODE, 0, True).part_seconds == 0
    found.token_pace.due_in = 0.8 * TOKEN
    some = found.plan(DECODE, 100, False).ride_tokens
    found.token_pace.due_in = math.inf
    assert 0 < some < found.plan(DECODE, 100, False).ride_tokens


@pytest.mark.parametrize("load", [Load(0, 0, 144, 144 * 72 // 2), Load(row_tokens=4, row_context=400)])
def test_a_plan_that_was_kept_is_made_anew_when_first_tokens_were_late(load: Load) -> None:
    found = planner(tpot=10.0, ttft=0.8)
    before = found.plan(load, 1000, False).ride_tokens
    for _ in range(4):
        found.observe_first_token(1.2, 0.6)
    assert found.plan(load, 1000, False).ride_tokens < before


def test_what_is_riders_doing_is_what_was_thought_before_the_step() -> None:
    found = Planner(terms(), Predictor())
    alone = found.predictor.seconds(DECODE)
    assert found.observe(riding(DECODE, 12), 0.5) == pytest.approx(0.5 - alone)
    # The step said that all of them take longer.
    assert found.predictor.seconds(DECODE) > 2 * alone


def test_a_window_has_1024_tokens_at_most() -> None:
    found = planner(tpot=1000.0, ttft=10_000.0)
    for _ in range(3):
        found.observe(riding(DECODE, 1500), step_seconds(riding(DECODE, 1500)))
    assert found.plan(DECODE, 10_000, False).ride_tokens == 1024


def test_a_step_that_takes_just_all_the_time_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planner()
    monkeypatch.setattr(Planner, "bound", lambda planner, load: planner.predictor.riding(load)(0))
    for parts in (False, True):
        assert found.plan(DECODE, 0 if parts else 100, parts).reason == "the step alone takes all the time there is"


def test_riders_are_patient_for_sixteen_steps() -> None:
    found = planner(tpot=0.01)
    plans = [found.plan(DECODE, 100, False).ride_tokens for _ in range(32)]
    assert [number for number, tokens in enumerate(plans, 1) if tokens] == [16, 32]
    assert set(plans) == {0, 4}


def test_a_window_that_attends_to_more_than_was_thought_is_smaller() -> None:
    found = planner()
    for _ in range(8):
        # What attending to much takes was seen of another's.
        for each in (50, 400, 1000, 3000):
            found.observe(riding(DECODE, 16, each, 2), step_seconds(riding(DECODE, 16, each)))
    tokens = found.plan(DECODE, 1000, False).ride_tokens
    assert found.fitting(riding(DECODE, tokens)) == tokens
    longer = riding(DECODE, tokens, 1000)
    fewer = found.fitting(longer)
    assert 0 < fewer < 0.7 * tokens
    assert step_seconds(riding(DECODE, fewer, 1000)) < 1.05 * TOKEN
    # What is planned next goes by it.
    assert found.plan(DECODE, 1000, False).ride_tokens == pytest.approx(fewer, abs=1)
    # A context that fills the step by itself leaves nothing.
    assert found.fitting(riding(DECODE, tokens, 100_000)) == 0
    assert found.plan(DECODE, 1000, False).ride_tokens == 0


def test_plans_are_of_the_guest_whose_window_is_next() -> None:
    found = planner()
    for _ in range(3):
        for tokens in (16, 32, 60):
            dear, usual = (riding(DECODE, tokens, 100, rider) for rider in (1, 2))
            found.observe(dear, step_seconds(DECODE) + 3 * (step_seconds(dear) - step_seconds(DECODE)))
            found.observe(usual, step_seconds(usual))
    plans = [found.plan(DECODE, 1000, False, 0.0, rider).ride_tokens for rider in (1, 2, 1, 2)]
    assert plans[:2] == plans[2:]
    assert 0 < plans[0] < 0.5 * plans[1]
    # Parts are planned by their time alone.
    assert found.plan(DECODE, 0, True, 0.0, 1) is found.plan(DECODE, 0, True, 0.0, 2)


def test_parts_end_when_the_step_was_to_end_with_them() -> None:
    found = planner()
    assert found.plan(DECODE, 0, True).end_seconds == pytest.approx(TOKEN)
    assert found.plan(DECODE, 100, False).end_seconds == math.inf
    # A part that runs all the same has no time in any case.
    found = planner(tpot=0.01)
    plans = [found.plan(DECODE, 0, True) for _ in range(16)]
    assert (plans[-1].part_seconds, plans[-1].end_seconds) == (0.002, math.inf)


def test_what_keeps_windows_out_is_doubted_by_steps() -> None:
    found = planner(tpot=0.02)
    found.predictor._riders[None].ratio.value = 6.0
    for _ in range(16):
        found.plan(DECODE, 100, False)
    assert found.predictor._riders[None].ratio.value == pytest.approx(1 + 5 * (255 / 256) ** 16)
    # Not where they are not what takes the time.
    found = planner(tpot=0.01)
    found.predictor._riders[None].ratio.value = 6.0
    for _ in range(16):
        found.plan(DECODE, 100, False)
    assert found.predictor._riders[None].ratio.value == 6.0


def test_parts_that_are_too_long_run_all_the_same_while_windows_have_room() -> None:
    found = planner()
    plans = [found.plan(DECODE, 1000, True, 0.2, 1) for _ in range(320)]
    assert sum(plan.part_seconds > 0 for plan in plans) == 10
    assert sum(plan.ride_tokens > 0 for plan in plans) == 160


def test_windows_that_are_too_dear_ride_all_the_same_and_are_doubted_while_parts_have_room() -> None:
    found = planner(tpot=0.02)
    found.predictor._riders[1].ratio.value = 6.0
    plans = [found.plan(DECODE, 1000, True, 0.0, 1) for _ in range(32)]
    assert sum(plan.ride_tokens > 0 for plan in plans) == 1
    assert sum(plan.part_seconds > 0 for plan in plans) == 16
    assert found.predictor._riders[1].ratio.value < 6.0


def dear_guest() -> Planner:
    """The first one's windows have no room, the second one's have."""
    found = planner(tpot=0.025)
    for number, ratio in ((1, 8.0), (2, 1.0)):
        found.predictor._riders[number].ratio.value = ratio
    return found


def test_windows_of_each_guest_are_patient_by_themselves() -> None:
    found = dear_guest()
    plans = [[found.plan(DECODE, 1000, False, 0.0, guest) for guest in (1, 2)] for _ in range(PATIENCE_STEPS)]
    dear, usual = zip(*plans, strict=True)
    assert [plan is TOO_DEAR for plan in dear] == [True] * (PATIENCE_STEPS - 1) + [False]
    assert dear[-1].ride_tokens == LITTLE_TOKENS
    assert all(plan.ride_tokens > 0 for plan in usual)


def test_parts_of_each_guest_are_patient_by_themselves() -> None:
    found = planner()
    plans = [
        [found.plan(DECODE, 0, True, least, None, guest) for guest, least in ((1, 0.2), (2, 0.001))]
        for _ in range(PATIENCE_STEPS)
    ]
    long, usual = zip(*plans, strict=True)
    assert [plan is TOO_LONG for plan in long] == [True] * (PATIENCE_STEPS - 1) + [False]
    assert long[-1].part_seconds == 0.002
    assert all(plan.part_seconds > 0.01 for plan in usual)
    # Nothing is kept of who has been patient, nor of those whose parts have room.
    assert not found._dry


def test_room_for_a_guests_windows_or_parts_is_none_for_the_other_of_it() -> None:
    found = planner()
    for _ in range(2 * (PATIENCE_STEPS - 1)):
        found.plan(DECODE, 1000, True, 0.2, 1, 1)
    assert found.plan(DECODE, 0, True, 0.2, None, 1).part_seconds == 0.002


def test_a_guest_that_has_gone_was_not_patient() -> None:
    found = dear_guest()
    for _ in range(PATIENCE_STEPS - 1):
        found.plan(DECODE, 1000, False, 0.0, 1)
        found.plan(DECODE, 0, True, 0.2, None, 1)
        found.plan(DECODE, 0, True, 0.2, None, 2)
    found.drop(1)
    assert 1 not in found.predictor._riders._here
    assert list(found._dry) == [(True, 2)]


def test_that_a_window_has_no_room_is_not_found_out_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = dear_guest(), list[int | None]()
    riding_of = found.predictor.riding
    monkeypatch.setattr(found.predictor, "riding", lambda load, rider: (asked.append(rider), riding_of(load, rider))[1])
    for _ in range(PATIENCE_STEPS - 1):
        assert found.plan(DECODE, 1000, False, 0.0, 1) is TOO_DEAR
        assert found.plan(DECODE, 1000, False, 0.0, 2).ride_tokens > 0
    assert asked == [1, 2]


def test_a_step_without_time_is_nobodys_doing() -> None:
    found = planner(tpot=0.01)
    for parts in (False, True):
        plan = found.plan(DECODE, 0 if parts else 100, parts, 0.2, 1, 1)
        assert (plan.ride_tokens, plan.part_seconds) == (0, 0.0)
        assert plan not in (TOO_DEAR, TOO_LONG)


def test_where_only_parts_wait_no_guest_is_made_up() -> None:
    found = Planner(terms(), Predictor())
    assert found.plan(DECODE, 0, True).part_seconds > 0
    assert found.plan(DECODE, 0, True, 9.0) is TOO_LONG
    assert not found.predictor._riders._here


def many_seconds(load: Load) -> float:
    """Of an engine whose windows take little of a step, once they ride."""
    own = 0.015 + 0.0002 * load.decode_rows + 1e-6 * load.decode_context
    return own + (0.0005 if load.ride_tokens else 0.0) + 0.0001 * load.ride_tokens + 1e-7 * load.ride_context


@pytest.mark.parametrize(
    ("room", "seconds", "slowness"), [(1.3, many_seconds, 2), (1.07, many_seconds, 6), (1.3, step_seconds, 4)]
)
def test_after_a_slow_moment_windows_grow_again(room: float, seconds: Callable[[Load], float], slowness: float) -> None:
    busy, predictor = Load(8, 1600), Predictor()
    for _ in range(6):
        for load in LOADS:
            for tokens in (0, 4, 16, 48, 128):
                predictor.observe(riding(load, tokens), seconds(riding(load, tokens)))
    found = Planner(terms(tpot=room * seconds(busy) / 0.9, ttft=10.0), predictor)

    def step(slow: float = 1.0) -> int:
        ridden = riding(busy, found.plan(busy, 1000, False).ride_tokens)
        found.observe(ridden, slow * seconds(ridden))
        return ridden.ride_tokens

    usual = [step() for _ in range(40)][-1]
    assert usual > 4
    for _ in range(3):
        step(slowness)
    assert sum(step() for _ in range(8)) < 8 * usual
    for _ in range(400):
        step()
    assert fmean(step() for _ in range(32)) > 0.9 * usual


def test_first_tokens_that_riders_made_late_leave_them_less() -> None:
    found = planner()
    found.observe_first_token(1.2, 0.1)
    assert found.idle_part_seconds == pytest.approx(0.1)
    assert not found.kept
    found.observe_first_token(1.2, 0.3)
    assert found.idle_part_seconds < 0.083


def test_parts_are_as_large_as_the_time_for_them() -> None:
    found = planner()
    for _ in range(50):
        for tokens in (8, 32, 128):
            found.observe_part("Backward", tokens, tokens * 100, 0.001 + 0.0002 * tokens)
    assert found.part_tokens("Backward", 0.015) == pytest.approx(70, abs=2)
    assert found.part_tokens("Backward", 0.0) == 1
    assert found.part_tokens("Head", 10.0) == 8


def test_a_plan_is_kept_until_something_is_learned() -> None:
    found = planner()
    plan = found.plan(DECODE, 100, False)
    assert found.plan(Load(4, 801), 200, False) is plan
    for _ in range(3):
        found.observe(riding(DECODE, plan.ride_tokens), 0.5)
    assert found.plan(DECODE, 100, False).ride_tokens < plan.ride_tokens


def test_a_plan_is_of_its_load() -> None:
    found = planner()
    tokens = [
        found.plan(load, 1000, False).ride_tokens
        for load in (
            DECODE,
            replace(DECODE, decode_rows=8),
            replace(DECODE, decode_context=8000),
            replace(DECODE, row_tokens=16),
            replace(DECODE, row_tokens=1, row_context=8000),
            replace(DECODE, prefill_tokens=8),
        )
    ]
    assert all(less < tokens[0] for less in tokens[1:])
    found = planner(tpot=10.0, ttft=10.0)
    short, long = (replace(DECODE, prefill_tokens=200, prefill_context=context) for context in (0, 200_000))
    assert found.plan(short, 1000, False).ride_tokens < found.plan(long, 1000, False).ride_tokens


def test_plans_are_no_leak() -> None:
    found = planner()
    for context in range(5000):
        found.plan(Load(1, context << 9), 10, False)
    assert len(found._plans) <= 4097


def test_taught_knows_its_machine() -> None:
    predictor = taught()
    assert predictor.seconds(riding(DECODE, 40)) == pytest.approx(step_seconds(riding(DECODE, 40)), rel=0.03)
