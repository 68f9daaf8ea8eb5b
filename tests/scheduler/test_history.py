"""What is known of workload classes from one pass to the next."""

import pytest
from scheduler.builders import GIB, NOW, job

from rowen.scheduler.history import History
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.model.prediction import Prediction
from rowen.scheduler.model.profile import PredictionError, Profile
from rowen.scheduler.model.promise import Promise
from rowen.scheduler.monitor.backoff import Backoff

KNOWN = History(
    profiles={
        ("a", "slow"): Profile(100.0, 60.0, NOW),
        ("a", "fast"): Profile(400.0, 60.0, NOW),
        ("b", "slow"): Profile(50.0, 60.0, NOW),
    }
)


def test_a_class_is_compared_with_itself_on_the_type_that_suits_it_best() -> None:
    assert KNOWN.rates == {"a": {"fast": 1.0, "slow": 0.25}, "b": {"slow": 1.0}}
    assert History().rates == {}


def test_what_a_class_makes_alone_is_known_where_it_was_seen() -> None:
    assert (KNOWN.solo("a", "fast"), KNOWN.solo("b", "fast"), KNOWN.solo("c", "slow")) == (400.0, None, None)
    assert (KNOWN.solo("a", "fast", "slow"), KNOWN.solo("b", "fast", "slow"), KNOWN.solo("a")) == (100.0, None, None)
    assert [KNOWN.profiled(name) for name in "abc"] == [True, True, False]


def test_what_riders_make_is_no_throughput_alone_and_is_what_riders_may_expect_where_nothing_else_is_known() -> None:
    half = Prediction(0.5, 1.0, 1.0, 0.25)
    rides = {("CoServe|a", "slow"): Profile(60.0, 60.0, NOW)}
    riders, both = History(rides), History({**KNOWN.profiles, **rides})
    assert (riders.solo("CoServe|a", "slow"), both.solo("CoServe|a", "slow")) == (None, 100.0)
    # In an engine a quarter of what it gives all its riders; a part of that of the throughput alone.
    assert [found.predicted("CoServe|a", half, "slow") for found in (riders, both)] == [15.0, 12.5]
    assert [found.predicted("a", half, "slow") for found in (riders, both)] == [None, 12.5]
    assert (riders.predicted("CoServe|a", half, "fast"), History().predicted("CoServe|a", half, "slow")) == (None, None)
    assert both.predicted("a", half, "slow", "fast") == 12.5


def test_a_promise_keeps_the_margin_that_its_class_needs_by_now() -> None:
    """Half of what it was off by is forgotten in an hour."""
    error = PredictionError(0.4, 0.0025, NOW)
    history = History(errors={"a": error}, time=NOW + 3600)
    assert history.error("a").mean == pytest.approx(0.2)
    assert history.promise("a", 0.3) == Promise(0.3, error.faded(NOW + 3600))
    assert history.promise("b", 0.3).error.mean == 0.0
    assert history.promise("a", 0.0).sla == 0.0
    assert history.promise("a", None) == Promise()


def test_back_offs_are_put_in_place_of_their_former_ones_and_put_back() -> None:
    old, new = Backoff(1, NOW, "old"), Backoff(2, NOW, "new")
    before = History(backoffs={("a", "n"): old, ("b", "n"): old})
    after = before.backed_off({("a", "n"): new, ("c", ""): new})
    assert after.backoffs == {("a", "n"): new, ("b", "n"): old, ("c", ""): new}
    assert after.backed_off_as(("a", "n"), before.backoffs).backoffs == {**before.backoffs, ("c", ""): new}
    assert after.backed_off_as(("c", ""), before.backoffs).backoffs == {("a", "n"): new, ("b", "n"): old}


def test_jobs_that_are_alike_share_what_is_known_of_their_memory() -> None:
    need = linear_need(GIB)
    first = KNOWN.appetite(job("x", need=need))
    assert first is not None
    assert KNOWN.appetite(job("y", need=need)) is first
    assert KNOWN.appetite(job("y", need=need, memory=2 * GIB)) is not first
    assert KNOWN.appetite(job("y", need=need, workload="b")) is not first
    assert KNOWN.appetite(job("z")) is None
