"""The replay that predictions are held against: by numbers worked out by hand."""

import pytest
from replay.node import POOL, Device, device, report
from replay.tenants import STEPS, Batch, Tuner

SEEN = Device(closed=((2.0, 3.0), (5.0, 9.0)), headroom=(1000, 3000, 2000, 4000), pool=POOL)


def test_the_gate_is_open_between_its_closings() -> None:
    assert SEEN.open_between(0.0, 10.0) == [(0.0, 2.0), (3.0, 5.0), (9.0, 10.0)]
    assert SEEN.open_between(2.5, 6.0) == [(3.0, 5.0)]
    assert SEEN.open_between(6.0, 8.0) == []


def test_a_report_is_made_of_what_was_seen() -> None:
    view = report(SEEN, "a", 0.0, 2.0)
    assert view.idle == 1.0
    # A quarter of the time each, in order of the memory.
    assert view.available == (0, 1000, 2000, 3000)
    later = report(SEEN, "a", 0.0, 10.0, (5.0, 20.0))
    assert later.idle == pytest.approx(0.5)
    assert [(window.seconds, window.fraction) for window in later.idles] == [(5.0, pytest.approx(0.2))]
    assert later.busy.fraction == pytest.approx(0.5, abs=0.01)


def test_a_device_has_room_for_its_peak_and_is_idle_for_a_part() -> None:
    seen = device("code", 600.0, "1")
    assert max(seen.headroom) <= POOL
    assert 0.2 < sum(end - begin for begin, end in seen.open_between(0.0, 600.0)) / 600.0 < 0.95
    assert device("code", 600.0, "1") == seen


def batch(most: int = 4) -> Batch:
    return Batch(prompt=64, output=64, most=most, step_seconds=0.02, row_seconds=0.01)


def test_a_batch_writes_a_token_of_each_sequence_in_a_step() -> None:
    """Four sequences: 0.06 s a step, so some 66 tokens a second, less prefills and steps of rows that end."""
    job = batch()
    job.run(60.0, job.want)
    assert 55.0 < job.tokens / 60.0 < 66.7


def test_less_memory_is_fewer_sequences() -> None:
    half, none = batch(), batch()
    half.run(60.0, half.want // 2)
    none.run(60.0, 0)
    whole = batch()
    whole.run(60.0, whole.want)
    assert 0.5 < half.tokens / whole.tokens < 0.9
    assert none.tokens == 0.0


def test_what_is_dropped_is_prefilled_again_and_counts_once() -> None:
    job = batch()
    job.run(1.0, job.want)
    before = {id(one): one.written for one in job.running}
    job.run(0.0, 0)
    assert job.running == []
    assert {id(one): one.written for one in job.waiting if id(one) in before} == before
    done = job.tokens
    assert all(one.written == one.counted for one in job.waiting)
    job.run(10.0, job.want)
    assert job.tokens > done


def test_a_step_under_way_goes_on_with_the_next_call() -> None:
    whole, parts = batch(), batch()
    whole.run(12.0, whole.want)
    for _ in range(1200):
        parts.run(0.01, parts.want)
    assert parts.tokens == pytest.approx(whole.tokens, abs=4 * STEPS)


def test_a_tuner_loads_what_has_no_room() -> None:
    """100 tokens in 0.4 s, and half of 0.8 s for the half of the layers."""
    job = Tuner(want=100, step_tokens=100, step_seconds=0.4, load_seconds=0.8)
    job.run(8.0, 50)
    assert job.tokens == pytest.approx(1000.0)
    job.run(8.0, 900)
    assert job.tokens == pytest.approx(3000.0)
