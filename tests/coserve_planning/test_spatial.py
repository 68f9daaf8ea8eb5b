import math
import random
from collections.abc import Callable

import pytest
from coserve_planning.machines import step_seconds
from coserve_planning.requests import Requests

from rowen.crds.ride.terms import LatencyBound, SpatialTerms
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning import spatial
from rowen.runtime.coserve.planning.predictor import Predictor
from rowen.runtime.coserve.planning.spatial import SharePlanner


class Known(Predictor):
    """Knows what steps take alone: a millisecond for each token that is attended to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.observed: list[tuple[Load, float]] = []

    def seconds(self, load: Load) -> float:
        self.asked += 1
        return load.decode_context / 1000

    def observe(self, load: Load, seconds: float) -> None:
        self.observed.append((load, seconds))


SECOND = Load(4, 1000)
"""What takes a second alone."""
FIRST = 4
"""Steps that are alone at first."""


PLANNED = 0.9
"""Of the bound: the rest is for what the engine does not see of a token's way."""


def terms(tpot: float, percentile: float = 90.0) -> SpatialTerms:
    """So that so many seconds are planned for."""
    return SpatialTerms(
        ttft=LatencyBound(percentile=99.0, seconds=9.0),
        tpot=LatencyBound(percentile=percentile, seconds=tpot / PLANNED + 1e-12),
    )


def planner(tpot: float, percentile: float = 90.0, *, known: Known | None = None) -> SharePlanner:
    """Of an engine whose steps of 4 requests were measured alone, whatever these attend to."""
    found = SharePlanner(terms(tpot, percentile), known or Known())
    for context in (0, 1000, 1024, 2048):
        for _ in range(FIRST):
            found.observe_alone(Load(4, context), 1.0)
    return found


def beside(found: SharePlanner, tenths: int, factor: float, times: int = 4) -> None:
    for _ in range(times):
        found.observe_beside(SECOND, factor, tenths)


def grown(tpot: float, factor: float = 1.0, percentile: float = 90.0) -> SharePlanner:
    """Of an engine that offline work slows down by that, whatever its share; all shares were measured."""
    found = planner(tpot, percentile)
    for tenths in range(1, 10):
        beside(found, tenths, factor)
    return found


@pytest.mark.parametrize("load", [Load(4, 1000, 1, 5), Load(0, 0, 64, 2080), Load(), Load(row_tokens=3)])
def test_only_steps_that_decode_and_read_no_prompt_have_a_share(load: Load) -> None:
    found = grown(100.0)
    for _ in range(FIRST):
        found.observe_alone(load, 1.0)
    assert found.share(load, occupied=False) == 0
    assert found.share(SECOND, occupied=False) == 9


def test_a_number_of_requests_is_measured_alone_first() -> None:
    found = SharePlanner(terms(100.0), Known())
    for _ in range(FIRST):
        assert found.share(SECOND, occupied=False) == 0
        # Neither of these is such a step.
        found.observe_alone(Load(4, 1000, 7, 28), 1.0)
        found.observe_alone(Load(5, 1000), 1.0)
        found.observe_beside(SECOND, 1.0, 1)
        found.observe_alone(SECOND, 1.0)
    assert found.share(SECOND, occupied=False) == 9
    assert found.share(Load(4, 1023), occupied=False) > 0
    assert found.share(Load(4, 1024), occupied=False) == 0
    assert found.share(Load(5, 1000), occupied=False) == 9
    assert found.share(Load(6, 1000), occupied=False) == 0


def test_what_was_measured_alone_is_learned() -> None:
    known, prompt = Known(), Load(1, 9, 2, 3)
    found = SharePlanner(terms(1.0), known)
    found.observe_alone(prompt, 0.5)
    found.observe_beside(SECOND, 0.7, 1)
    assert known.observed == [(prompt, 0.5)]


@pytest.mark.parametrize(("tpot", "tenths"), [(0.9, 0), (1.0, 0), (1.12, 0), (1.18, 1), (2.0, 4), (2.11, 5), (30.0, 9)])
def test_the_largest_share_whose_time_is_in_the_bound_with_a_reserve(tpot: float, tenths: int) -> None:
    # Nothing is known: 1 / (1 - tenths / 10), and a twentieth.
    assert planner(tpot).share(SECOND, occupied=False) == tenths


@pytest.mark.parametrize(("tpot", "tenths"), [(1.5 / 0.95 + 0.01, 9), (1.5 / 0.95 - 0.01, 0), (1.0, 0)])
def test_with_what_was_measured(tpot: float, tenths: int) -> None:
    assert grown(tpot, 1.5).share(SECOND, occupied=True) == tenths


def test_beside_offline_work_it_grows_by_a_tenth_above_what_was_measured() -> None:
    found = planner(100.0)
    for tenths in range(1, 10):
        beside(found, tenths, 1.0, times=3)
        assert found.share(SECOND, occupied=True) == tenths
        beside(found, tenths, 1.0, times=1)
    assert found.share(SECOND, occupied=True) == 9


def test_a_step_far_longer_than_was_thought_has_its_kind_measured_alone_again() -> None:
    found = planner(100.0)
    beside(found, 1, 1.0)
    assert found.share(SECOND, occupied=True) == 2
    found.observe_alone(SECOND, 1.0)
    found.observe_beside(SECOND, 1.6, 1)
    assert found.share(SECOND, occupied=True) == 0
    assert found.share(Load(4, 1024), occupied=True) == 2
    for _ in range(FIRST):
        assert found.share(SECOND, occupied=True) == 0
        found.observe_alone(SECOND, 1.0)
    assert found.share(SECOND, occupied=True) == 2
    assert found._slowdowns.factors[1] == pytest.approx(1.0)
    # Where that has not changed it, it is offline work's doing.
    beside(found, 1, 1.6, times=3)
    assert found._slowdowns.factors[1] == pytest.approx(1.6)


def test_offline_work_that_had_nothing_to_do_before_is_found_out_by_four_steps_of_any_kinds() -> None:
    found = grown(2.6)
    kinds = [Load(4, 1000), Load(4, 2048), Load(4, 1024)]
    for load in kinds:
        found.observe_alone(load, load.decode_context / 1000)
    assert found.share(SECOND, occupied=True) == 9
    for load in (*kinds, kinds[1]):
        # The first one may be the kind's own doing.
        assert found._slowdowns.factors[9] == pytest.approx(1.0, abs=0.2)
        found.observe_beside(load, 5 * load.decode_context / 1000, 9)
    assert found._slowdowns.factors[9] == pytest.approx(5.0)
    assert found.share(kinds[2], occupied=True) == 6
    assert found.share(kinds[1], occupied=True) == 2
    assert found.share(kinds[0], occupied=True) == 0


def test_long_steps_with_others_between_are_doubted_each() -> None:
    found = grown(100.0)
    for load in (SECOND, Load(4, 1024), Load(4, 2048)):
        found.observe_alone(load, load.decode_context / 1000)
        found.observe_beside(load, 5 * load.decode_context / 1000, 9)
        assert found.share(load, occupied=True) == 0
        found.observe_beside(Load(4, 0), 1e-6, 9)
    assert found._slowdowns.factors[9] == pytest.approx(1.0)


def test_without_offline_work_it_says_how_open_the_device_would_be() -> None:
    found = planner(100.0)
    assert found.share(SECOND, occupied=False) == 9
    assert found.share(SECOND, occupied=True) == 1
    beside(found, 1, 1.0)
    assert found.share(SECOND, occupied=True) == 2
    assert found.share(SECOND, occupied=False) == 9


def test_one_that_fits_stays_until_a_larger_one_fits_with_the_reserve() -> None:
    # Five tenths fit at twice the time alone, with the reserve at 2.106 times.
    found = planner(2.2)
    roomy, tight, too_tight = Load(4, 1000), Load(4, 1080), Load(4, 1580)
    assert found.share(tight, occupied=False) == 4
    assert found.share(roomy, occupied=False) == 5
    assert found.share(tight, occupied=False) == 5
    assert found.share(too_tight, occupied=False) == 2
    assert found.share(tight, occupied=False) == 4
    assert found.share(roomy, occupied=False) == 5


def test_a_prompt_between_leaves_it_as_it_was() -> None:
    found, tight = planner(2.2), Load(4, 1080)
    found.share(SECOND, occupied=False)
    assert found.share(Load(4, 1080, 9, 45), occupied=False) == 0
    assert found.share(tight, occupied=False) == 5


def test_the_limit_of_growth_holds_for_one_that_stays_too() -> None:
    found, tight = planner(2.2), Load(4, 1080)
    found.share(SECOND, occupied=False)
    assert found.share(tight, occupied=True) == 1
    beside(found, 1, 1.0)
    beside(found, 2, 1.0)
    assert found.share(tight, occupied=True) == 3
    # And one that it allows.
    assert found.share(tight, occupied=True) == 3


def test_offline_work_that_slows_steps_down_gets_less() -> None:
    found = grown(2.0)
    assert found.share(SECOND, occupied=True) == 9
    beside(found, 9, 3.0, times=3)
    # Another tuner: nothing is known of other shares, and nine tenths are too much.
    assert found.share(SECOND, occupied=True) == 5
    beside(found, 5, 1.95)
    assert found.share(SECOND, occupied=True) == 5


def test_what_is_too_short_to_be_a_step_says_nothing() -> None:
    found = planner(100.0)
    beside(found, 1, 1e-7)
    assert found.share(SECOND, occupied=True) == 1
    beside(found, 1, 1e-6)
    assert found.share(SECOND, occupied=True) == 2


def test_a_step_that_was_predicted_to_take_no_time_harms_nothing() -> None:
    found = planner(1e-6)
    assert found.share(Load(4, 0), occupied=False) == 0
    for _ in range(4):
        found.observe_beside(Load(4, 0), 1e-6, 1)
    # As long as a microsecond: that is no slowdown.
    assert found.share(Load(4, 0), occupied=True) == 0
    loose = planner(1.2e-6)
    assert loose.share(Load(4, 0), occupied=False) == 1


def test_it_is_decided_anew_for_another_kind_of_load_alone() -> None:
    known = Known()
    found = planner(2.2, known=known)
    found.observe_alone(Load(5, 512), 0.5)
    known.asked = 0
    for context in (512, 700, 1023):
        found.share(Load(4, context), occupied=False)
    assert known.asked == 1
    found.share(Load(4, 1024), occupied=False)
    assert known.asked == 2
    for _ in range(FIRST):
        found.observe_alone(Load(5, 512), 0.5)
    found.share(Load(5, 512), occupied=False)
    assert known.asked == 3


def test_and_where_predictions_moved() -> None:
    known = Known()
    found = planner(2.2, known=known)
    for _ in range(2):
        known.asked = 0
        found.share(SECOND, occupied=False)
        found.share(SECOND, occupied=False)
        assert known.asked == 1
        known.version += 1
    known.asked = 0
    found.share(SECOND, occupied=False)
    beside(found, 1, 1.0)
    known.asked = 0
    found.share(SECOND, occupied=False)
    found.share(SECOND, occupied=False)
    assert known.asked == 1


def test_no_more_kinds_of_load_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spatial, "_MOST_RANGES", 2)
    known = Known()
    found = planner(2.2, known=known)
    loads = [Load(4, context) for context in (600, 1100, 1600)]
    for load in (*loads[:2], *loads[:2]):
        found.share(load, occupied=False)
    assert known.asked == 2
    found.share(loads[2], occupied=False)
    found.share(loads[1], occupied=False)
    assert known.asked == 4
    found.share(loads[2], occupied=False)
    assert known.asked == 4


LATE = 1.6 / PLANNED + 0.1
"""Of requests where 1.6 s are planned for."""


def test_late_requests_beside_offline_work_lower_the_share() -> None:
    found = grown(1.6, 1.5)
    assert found.share(SECOND, occupied=True) == 9
    found.observe_tpot(LATE, 0.2)
    # The margin is exp(-0.18): 1.5 s are more than 1.6 s of that.
    assert found.share(SECOND, occupied=True) == 0
    # Each in time adds exp(0.02).
    for _ in range(5):
        found.observe_tpot(1.0, 0.0)
    assert found.share(SECOND, occupied=True) == 0
    for _ in range(4):
        found.observe_tpot(1.0, 0.0)
    assert found.share(SECOND, occupied=True) == 9


def test_what_is_late_by_itself_does_not() -> None:
    found = grown(1.6, 1.5)
    for _ in range(3):
        found.observe_tpot(LATE, 0.05)
    assert found.share(SECOND, occupied=True) == 9


def test_offline_work_has_taken_what_gaps_beside_it_are_longer_than_alone() -> None:
    found = planner(1.6)
    found.observe_gap(SECOND, 1.75, beside=True)
    assert found.offline_seconds == pytest.approx(0.75)
    found.observe_gap(SECOND, 1.5, beside=False)
    assert found.offline_seconds == pytest.approx(0.75)
    # What was shorter than predicted gives nothing back.
    found.observe_gap(SECOND, 0.25, beside=True)
    found.observe_gap(SECOND, 1.25, beside=True)
    assert found.offline_seconds == pytest.approx(1.0)


def test_a_step_may_take_what_running_requests_have_left() -> None:
    found = grown(2.0, 1.5)
    assert found.share(SECOND, occupied=True) == 9
    # Less than is planned for a token: 1.4 of 1.5 s.
    found.token_pace.due_in = 1.4
    assert found.share(SECOND, occupied=True) == 0
    found.token_pace.due_in = 1.7
    assert found.share(SECOND, occupied=True) == 9
    found.token_pace.due_in = -3.0
    assert found.share(SECOND, occupied=True) == 0
    found.token_pace.due_in = math.inf
    assert found.share(SECOND, occupied=True) == 9


def test_ranges_are_kept_while_the_margin_does_not_move() -> None:
    known = Known()
    found = planner(2.2, known=known)
    found.share(SECOND, occupied=False)
    found.observe_tpot(1.0, 0.0)
    known.asked = 0
    found.share(SECOND, occupied=False)
    assert known.asked == 0
    found.observe_tpot(2.6, 1.0)
    found.share(SECOND, occupied=False)
    assert known.asked == 1
    # And for each time that requests have left, by itself.
    found.token_pace.due_in = 1.0
    found.share(SECOND, occupied=False)
    found.share(SECOND, occupied=False)
    assert known.asked == 2


PATIENCE = 512


def shares(found: SharePlanner, count: int) -> list[int]:
    return [found.share(SECOND, occupied=True) for _ in range(count)]


def test_a_share_that_was_found_too_large_is_tried_again_after_a_while() -> None:
    found = planner(2.0)
    beside(found, 1, 5.0)
    assert set(shares(found, PATIENCE)) == {0}
    assert shares(found, 1) == [1]


def test_then_for_another_while_it_is_not() -> None:
    found = planner(2.0)
    beside(found, 1, 5.0)
    shares(found, PATIENCE)
    beside(found, 1, 5.0)
    assert set(shares(found, PATIENCE)) == {0}
    assert shares(found, 1) == [1]


def test_what_was_used_meanwhile_is_not_doubted() -> None:
    found = planner(2.0)
    beside(found, 1, 1.0)
    beside(found, 2, 1.3)
    beside(found, 3, 5.0)
    assert shares(found, 1) == [2]
    heavy = Load(4, 1700)
    for _ in range(PATIENCE - 1):
        assert found.share(heavy, occupied=True) == 1
    # Two tenths are still known, three are not.
    assert shares(found, 2) == [3, 3]
    beside(found, 3, 5.0)
    for _ in range(PATIENCE - 2):
        assert found.share(heavy, occupied=True) == 1
    assert shares(found, 1) == [2]


def test_a_while_in_which_it_was_used_less_is_one_of_its_own() -> None:
    found = planner(2.0)
    beside(found, 1, 1.0)
    beside(found, 2, 1.3)
    heavy = Load(4, 1700)
    shares(found, 1)
    for _ in range(PATIENCE - 1 + PATIENCE):
        found.share(heavy, occupied=True)
    # One tenth was used in the second one.
    assert found._slowdowns.largest == 1


def test_nothing_is_tried_while_requests_do_not_get_what_they_were_promised() -> None:
    found = planner(2.0)
    beside(found, 1, 5.0)
    found.observe_tpot(2.5, 0.0)
    shares(found, PATIENCE)
    assert shares(found, 1) == [0]
    for _ in range(10):
        found.observe_tpot(1.0, 0.0)
    assert set(shares(found, PATIENCE - 2)) == {0}
    assert shares(found, 2) == [0, 1]


@pytest.mark.parametrize("percentile", [90.0, 99.0])
@pytest.mark.parametrize(
    "slowness",
    [lambda _, tenths: 10 / (10 - tenths), lambda step, tenths: 1.02 if step // 300 % 2 else 10 / (10 - tenths)],
)
@pytest.mark.parametrize(("prompt", "rate"), [(16, 1.5), (48, 3.0), (80, 1.5)])
def test_the_percentile_is_kept_beside_a_tuner_that_takes_its_quota(
    percentile: float, slowness: Callable[[int, int], float], prompt: int, rate: float
) -> None:
    """In the second case it has its phases, such as waiting for data. Prompts come while requests decode."""
    found, draw = SharePlanner(terms(0.027, percentile), Predictor()), random.Random(3)
    pace, now, steps = found.token_pace, 0.0, 8000
    requests, last, given, changes = Requests(random.Random(5), rate, pace), 0, 0, 0
    for step in range(steps):
        now, come = requests.come(now)
        # First tokens are there, be it after a time without requests.
        requests.followed.finish(now, found.offline_seconds)
        requests.followed.begin((), requests.tokens.items())
        pace.due_in = requests.followed.due_in(now)
        rows, tokens = len(requests.tokens), prompt * come
        load = Load(rows, rows * 150, tokens, tokens * prompt // 2)
        share = found.share(load, occupied=True)
        seconds = step_seconds(load) * (slowness(step, share) if share else 1.0) * draw.lognormvariate(0, 0.05)
        now += seconds
        found.observe_gap(load, seconds, beside=share > 0)
        if share == 0:
            found.observe_alone(load, seconds)
        elif share == last:
            found.observe_beside(load, seconds, share)
        for tpot, offline_seconds in requests.followed.begin(requests.step(now, found.offline_seconds), ()):
            found.observe_tpot(tpot, offline_seconds)
        given, changes, last = given + share, changes + (share != last), share
    late = sum(tpot > 0.03 for tpot in requests.tpots) / len(requests.tpots)
    assert late <= (1 - percentile / 100) * 1.5 + 0.002
    # A third of a step of 16 ms and more is left, and a change takes 0.3 ms.
    assert given / steps > 2
    assert changes < steps / 4
