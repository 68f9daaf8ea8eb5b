"""Solo throughput: what raises it, what lowers it, and what does not."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter, ValidationError

from rowen.scheduler.model.profile import (
    FROM_SPEC,
    MOST_WITNESSES,
    PredictionError,
    Profile,
    Window,
    Witness,
    given,
    refined,
)

NOW = 1_000.0


def seen(profile: Profile | None, *windows: tuple[str, float], granted: float = 60.0, alone: bool = True) -> Profile:
    """With windows of these witnesses, each at so many tokens per granted second."""
    for witness, rate in windows:
        profile = refined(profile, Window(witness, rate * granted, granted, alone), NOW)
    assert profile is not None
    return profile


def test_the_first_minute_is_a_plain_mean() -> None:
    found = seen(None, ("a", 100.0), ("a", 40.0), granted=30.0)
    assert found.tokens_per_second == pytest.approx(70.0)
    assert found.weight == 60.0
    assert found.updated == NOW


def test_what_slows_a_job_down_for_hours_does_not_pass_for_a_lower_throughput_alone() -> None:
    found = seen(None, ("a", 100.0), *[("a", 40.0)] * 200)
    assert found.tokens_per_second == 100.0
    assert found.witnesses[0].smooth == pytest.approx(40.0, abs=0.01)
    assert found.weight == 600.0


def test_a_job_that_gets_faster_is_believed_over_a_minute() -> None:
    """A window of 60 s after the first 60 s counts for half of the smoothed rate: 100, 110, 115."""
    found = seen(None, ("a", 100.0), ("a", 120.0))
    assert found.tokens_per_second == pytest.approx(110.0)
    assert seen(found, ("a", 120.0)).tokens_per_second == pytest.approx(115.0)
    assert seen(found, ("a", 60.0), ("a", 60.0)).tokens_per_second == pytest.approx(110.0)


@pytest.mark.parametrize(
    ("rates", "upper"),
    [((90.0,), 90.0), ((60.0, 90.0), 90.0), ((60.0, 80.0, 90.0), 90.0), ((60.0, 70.0, 80.0, 90.0), 80.0)],
)
def test_several_jobs_give_their_upper_quartile(rates: tuple[float, ...], upper: float) -> None:
    assert seen(None, *((str(rate), rate) for rate in rates)).tokens_per_second == upper


def test_a_class_that_has_become_slower_is_believed_when_several_say_so() -> None:
    found = seen(None, ("a", 100.0), ("b", 50.0), ("c", 50.0))
    assert found.tokens_per_second == 100.0
    assert seen(found, ("d", 50.0)).tokens_per_second == 50.0


NAMES = [f"w{number}" for number in range(MOST_WITNESSES)]


def names(profile: Profile) -> set[str]:
    return {witness.name for witness in profile.witnesses}


def test_jobs_that_take_turns_are_all_known_for_more_than_a_window() -> None:
    """Ten jobs of 20 s each: the first six grow into witnesses of minutes, the others are ignored."""
    found = None
    for _ in range(10):
        found = seen(found, *((f"w{number}", 100.0) for number in range(10)), granted=20.0)
    assert found is not None
    assert names(found) == set(NAMES)
    assert {witness.weight for witness in found.witnesses} == {200.0}


def test_a_witness_that_is_heard_no_more_makes_room() -> None:
    found = seen(None, *((name, 100.0) for name in NAMES))
    assert names(refined(found, Window("new", 100.0, 20.0, alone=True), NOW + 1800)) == set(NAMES)
    late = refined(found, Window("w0", 100.0, 20.0, alone=True), NOW + 1801)
    assert names(refined(late, Window("new", 100.0, 20.0, alone=True), NOW + 1801)) == {"new", "w0", *NAMES[2:]}


def test_of_those_that_are_heard_one_that_shared_and_then_the_lightest_makes_room() -> None:
    found = seen(None, *((name, 100.0) for name in NAMES[1:]))
    light = seen(found, ("light", 100.0), granted=1.0)
    assert names(seen(light, ("new", 100.0), granted=20.0)) == {"new", *NAMES[1:]}
    shared = seen(found, ("shared", 100.0), granted=600.0, alone=False)
    assert names(seen(shared, ("new", 100.0), granted=20.0)) == {"new", *NAMES[1:]}


def test_a_remnant_of_a_second_counts_only_while_nothing_better_is_known() -> None:
    found = seen(None, ("a", 300.0), granted=1.0)
    assert found.tokens_per_second == 300.0
    found = seen(found, ("b", 90.0), granted=59.0)
    assert found.tokens_per_second == 300.0
    assert seen(found, ("c", 100.0), granted=60.0).tokens_per_second == 100.0


@pytest.mark.parametrize("tokens", [1e300, float("inf")])
def test_no_tenant_is_faster_than_can_be_stored(tokens: float) -> None:
    found = refined(None, Window("a", tokens, 60.0, alone=True), NOW)
    found = refined(found, Window("a", tokens, 60.0, alone=True), NOW)
    assert found.tokens_per_second == 1e12


def test_what_was_measured_alone_goes_before_what_was_shared() -> None:
    shared = seen(None, ("a", 150.0), alone=False)
    assert shared.tokens_per_second == 150.0
    found = seen(shared, ("b", 100.0))
    assert found.tokens_per_second == 100.0
    # A witness that was alone says nothing new while it shares; alone, one that shared starts anew.
    assert seen(found, ("b", 400.0), alone=False).tokens_per_second == 100.0
    assert seen(found, ("a", 90.0)).witnesses[-1] == Witness("a", 90.0, 90.0, 60.0, alone=True, heard=NOW)


def test_what_a_spec_says_counts_until_anything_was_measured() -> None:
    found = given(80.0, NOW)
    assert found == Profile(80.0, 0.0, NOW, (Witness(FROM_SPEC, 80.0, 80.0, 0.0, alone=True, heard=NOW),))
    assert seen(found, ("a", 40.0)).tokens_per_second == 40.0
    assert names(seen(found, ("a", 40.0))) == {"a"}
    assert seen(found, ("a", 100.0)).tokens_per_second == 100.0


def test_a_profile_of_an_older_release_speaks_for_itself() -> None:
    found = seen(Profile(100.0, 300.0, 0.0), ("a", 40.0))
    assert found.tokens_per_second == 100.0
    assert found.weight == 300.0


def test_a_refined_profile_keeps_what_was_seen_of_memory() -> None:
    from rowen.scheduler.model.evidence import MemoryEvidence

    before = replace(given(80.0, NOW), memory=MemoryEvidence())
    assert seen(before, ("a", 40.0)).memory == MemoryEvidence()


@pytest.mark.parametrize(
    ("mean", "variance", "uncertainty", "bound"),
    [
        (0.0, 0.0025, 0.0, 0.1),
        (0.0, 0.0025, 0.04, 0.1),
        (0.0, 0.0025, 0.1, 0.2),
        (0.05, 0.0, 0.1, 0.25),
        (0.0, 0.0, 0.0, 0.02),
        (-0.9, 0.0, 0.1, 0.02),
        (0.3, 0.04, 0.0, 0.5),
    ],
)
def test_the_bound_is_the_mean_and_two_of_the_larger_deviation(
    mean: float, variance: float, uncertainty: float, bound: float
) -> None:
    error = PredictionError(mean, variance)
    assert error.bound_with(uncertainty) == pytest.approx(bound)
    assert error.margin(0.4, uncertainty) == pytest.approx(0.4 * bound / (1 - bound))
    if uncertainty == 0.0:
        assert error.bound == error.bound_with(0.0)


def test_an_error_moves_the_mean_and_the_variance_by_a_tenth() -> None:
    first = PredictionError().updated(0.5, 0.4, 0.0)
    assert first.mean == pytest.approx(0.1 * 0.2)
    assert first.variance == pytest.approx(0.9 * (0.0025 + 0.1 * 0.04))
    second = first.updated(0.5, 0.5, 0.0)
    assert second.mean == pytest.approx(0.9 * 0.02)
    assert second.variance == pytest.approx(0.9 * first.variance)
    assert PredictionError().updated(0.1, 10.0, 0.0).mean == pytest.approx(-0.1)


def test_one_window_of_half_the_promise_does_not_rule_a_class_out() -> None:
    """Mean 0.05, variance 0.9 · (0.0025 + 0.1 · 0.25): less than the bound's limit of a half."""
    assert PredictionError().updated(0.8, 0.4, NOW).bound == pytest.approx(0.05 + 2 * 0.02475**0.5)


def test_what_was_measured_for_a_quarter_of_the_time_counts_for_a_quarter() -> None:
    """A promise of which nothing came in two and a half minutes: a fortieth of mean and variance, and b = 0.35."""
    found = PredictionError().updated(0.8, 0.0, NOW, weight=0.25)
    assert (found.mean, found.variance) == (0.025, pytest.approx(0.975 * (0.0025 + 0.025)))
    assert found.bound == pytest.approx(0.025 + 2 * 0.0268125**0.5)


def test_what_is_known_stands_until_a_witness_is_heard_for_a_minute() -> None:
    """One that shared its device is alone now: its first slow seconds do not count as the throughput alone."""
    shared = refined(None, Window("a", 60 * 80.0, 80.0, alone=False), NOW)
    assert shared.tokens_per_second == 60.0
    slow = refined(shared, Window("a", 15 * 20.0, 20.0, alone=True), NOW + 60)
    assert (slow.tokens_per_second, slow.updated) == (60.0, NOW + 60)
    later = refined(slow, Window("a", 90 * 50.0, 50.0, alone=True), NOW + 120)
    assert later.tokens_per_second == pytest.approx((300 + 4500) / 70)


def test_what_a_class_was_off_by_fades_by_half_in_an_hour() -> None:
    far = PredictionError(0.4, 0.0425, NOW)
    assert far.bound == 0.5
    assert far.faded(NOW + 3600) == PredictionError(0.2, pytest.approx(0.0225), NOW + 3600)
    # The same, however often it is looked at.
    assert far.faded(NOW + 600).faded(NOW + 3600).variance == pytest.approx(0.0225)
    assert far.faded(NOW + 24 * 3600).bound == pytest.approx(0.1, abs=1e-6)
    assert far.faded(NOW - 60) == far
    assert [far.faded(NOW + hours * 3600).measured for hours in (0, 8, 9, 24)] == [True, True, False, False]
    later = far.updated(0.5, 0.5, NOW + 3600)
    assert (later.mean, later.time) == (pytest.approx(0.18), NOW + 3600)


def test_a_stored_rate_of_nothing_is_refused() -> None:
    """A class that never moves would divide by it."""
    stored = TypeAdapter(Profile)
    assert stored.validate_python({"tokens_per_second": 1e-9, "weight": 1.0, "updated": 0.0}).tokens_per_second == 1e-9
    with pytest.raises(ValidationError, match="tokens_per_second"):
        stored.validate_python({"tokens_per_second": 0.0, "weight": 1.0, "updated": 0.0})
