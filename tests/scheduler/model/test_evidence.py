"""Throughput by memory, learned from windows."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.scheduler.model.evidence import NO_FEATURES, MemoryEvidence, features, learned
from rowen.scheduler.model.memory import MemoryCurve, MemoryNeed, linear_need, memory_factor

WANT = 400
PRIOR = linear_need(WANT, doubt=0.5)


def test_features_are_the_means_of_each_quarter() -> None:
    assert features((0,), WANT) == (1.0, 0.0, 0.0, 0.0, 0.0)
    assert features((50,), WANT) == pytest.approx((1.0, 0.5, 0.0, 0.0, 0.0))
    assert features((250, 350), WANT) == pytest.approx((1.0, 1.0, 1.0, 0.75, 0.25))
    assert features((9000,), WANT) == (1.0, 1.0, 1.0, 1.0, 1.0)


def test_evidence_is_a_sum_and_fades_after_an_hour() -> None:
    first = MemoryEvidence().updated((1.0, 0.5, 0.0, 0.0, 0.0), 80.0, 20.0)
    assert first.seconds == 20.0
    assert first.gram[:3] == (20.0, 10.0, 0.0)
    assert first.gram[5] == 5.0
    assert first.moment == (1600.0, 800.0, 0.0, 0.0, 0.0)
    long = first
    for _ in range(400):
        long = long.updated((1.0, 1.0, 1.0, 1.0, 1.0), 100.0, 20.0)
    assert long.seconds == pytest.approx(3600.0)
    assert long.moment[0] / long.gram[0] == pytest.approx(100.0, abs=0.1)


def test_time_in_which_nothing_was_seen_counts_for_nothing() -> None:
    assert MemoryEvidence().updated(NO_FEATURES, 80.0, 20.0) == MemoryEvidence()


def test_stored_evidence_that_makes_no_sense_leaves_what_the_spec_says() -> None:
    """By it the job would be no faster with any memory: the moment is what takes the prior and the whole away."""
    nothing = MemoryEvidence(moment=(-600.0, *(-602.5,) * 4))
    assert learned(PRIOR, nothing, 1.0) is PRIOR
    assert learned(PRIOR, MemoryEvidence(moment=(-6000.0,) * 5), 1.0) is PRIOR


def taught(worth: MemoryCurve, traces: list[list[int]]) -> MemoryEvidence:
    evidence = MemoryEvidence()
    for trace in traces:
        evidence = evidence.updated(features(trace, WANT), 100.0 * float(worth.at(trace).mean()), 60.0)
    return evidence


def traces(count: int = 60) -> list[list[int]]:
    """Memory that varies within windows and between them."""
    source = random.Random(1)
    return [[source.randint(0, source.randint(1, WANT)) for _ in range(32)] for _ in range(count)]


TRUTH = MemoryCurve(((0.0, 0.2), (100.0, 0.7), (200.0, 0.9), (400.0, 1.0)))


def test_a_curve_is_found_out_of_windows_in_which_memory_varies() -> None:
    found = learned(PRIOR, taught(TRUTH, traces()), 100.0)
    assert found.curve.at([0, 100, 200, 300, 400]) == pytest.approx([0.2, 0.7, 0.9, 0.95, 1.0], abs=0.04)
    assert found.loss == 0.0
    assert found.want_bytes == WANT
    assert found.doubt == 0.05
    fresh = [0, 30, 90, 350]
    assert memory_factor(found, fresh) == pytest.approx(float(TRUTH.at(fresh).mean()), abs=0.02)


def test_a_little_evidence_moves_the_prior_a_little() -> None:
    evidence = MemoryEvidence().updated(features((100,), WANT), 70.0, 20.0)
    found = learned(PRIOR, evidence, 100.0)
    assert 0.3 < float(found.curve.at(100)) < 0.6
    assert found.doubt == pytest.approx(0.5 * 300 / 320)


def test_no_evidence_leaves_the_prior_with_its_loss_in_the_curve() -> None:
    prior = MemoryNeed(TRUTH, WANT, loss=0.4, doubt=0.2)
    found = learned(prior, MemoryEvidence(), 100.0)
    # Knots at 0, 100, …: the curve less 0.4 times the part that is missing.
    assert [worth for _, worth in found.curve.points] == pytest.approx([-0.2, 0.4, 0.7, 0.85, 1.0])
    assert found.doubt == 0.2
    for trace in traces(count=5):
        assert memory_factor(found, trace) == pytest.approx(memory_factor(prior, trace))


def test_what_is_known_at_one_level_is_shared_out_over_the_others_to_the_whole() -> None:
    """As fast as at a quarter with none at all: what is left of the whole is the rise up to all."""
    flat = MemoryCurve(((0.0, 0.25),))
    points = [worth for _, worth in learned(PRIOR, taught(flat, [[0], [100]] * 30), 100.0).curve.points]
    assert points[0] == pytest.approx(points[1], abs=0.05)
    assert points[2] - points[1] == pytest.approx(points[4] - points[3], abs=1e-6)
    assert points[4] == pytest.approx(1.0)


@given(st.lists(st.tuples(st.lists(st.integers(0, 600), min_size=1, max_size=8), st.floats(0, 200)), max_size=8))
def test_whatever_was_seen_more_memory_is_never_worth_less(seen: list[tuple[list[int], float]]) -> None:
    evidence = MemoryEvidence()
    for trace, rate in seen:
        evidence = evidence.updated(features(trace, WANT), rate, 60.0)
    worth = [worth for _, worth in learned(PRIOR, evidence, 100.0).curve.points]
    assert worth == sorted(worth)
    assert worth[-1] == pytest.approx(1.0)
