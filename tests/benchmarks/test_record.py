"""What a tenant writes down of itself, and what is counted from that."""

import time

import pytest
from preemption.record import APART_NS, NEVER, Pause, Record, Run, last_within, make, pauses, pauses_of, united

RUNS = [Run(0, 10), Run(20, 30), Run(40, 50)]


def test_a_record_holds_runs_that_pauses_part(tmp_path, monkeypatch):
    path = make(tmp_path / "record")
    writer, reader = Record(path), Record(path)
    assert (reader.last_ns(), reader.runs()) == (0, [])
    begin = 5 * APART_NS
    times = [begin, begin + APART_NS - 1, begin + 2 * APART_NS - 2, begin + 3 * APART_NS - 2]
    for now in times:
        monkeypatch.setattr(time, "monotonic_ns", lambda now=now: now)
        writer.note()
        assert reader.last_ns() == now
    assert reader.runs() == [Run(times[0], times[2]), Run(times[3], times[3])]


def test_runs_of_several_tenants_are_one_where_any_of_them_runs():
    one = [Run(0, 10), Run(20 + APART_NS, 30 + APART_NS)]
    other = [Run(5, 21), Run(40 + 3 * APART_NS, 50 + 3 * APART_NS)]
    # The pause after 21 is a nanosecond too short to be one.
    assert united([one, other]) == [Run(0, 30 + APART_NS), other[1]]
    assert united([[Run(0, 100), Run(5, 10)]]) == [Run(0, 100)]
    assert united([[Run(0, 10), Run(10 + APART_NS, 11 + APART_NS)]]) == [Run(0, 10), Run(10 + APART_NS, 11 + APART_NS)]
    assert united([[], []]) == []


def test_there_is_a_pause_after_the_last_run():
    assert pauses(RUNS) == [Pause(10, 20), Pause(30, 40), Pause(50, NEVER)]
    assert pauses([]) == []


@pytest.mark.parametrize(
    ("begin", "end", "count"),
    [
        (5, 6, 0), (5, 15, 1), (10, 15, 1), (12, 15, 1), (12, 25, 1), (22, 28, 0), (22, 45, 1), (5, 45, 2),
        (12, 35, 2), (10, 20, 1), (9, 10, 0), (20, 25, 0), (19, 25, 1), (45, 70, 1), (60, 70, 1), (5, 70, 3),
    ],
)  # fmt: skip
def test_pauses_that_a_request_meets(begin, end, count):
    assert len(pauses_of(pauses(RUNS), begin, end)) == count


@pytest.mark.parametrize(
    ("begin", "end", "last"),
    [(12, 18, 12), (5, 18, 10), (25, 28, 28), (5, 25, 25), (11, 35, 30), (45, 60, 50), (60, 70, 60), (12, 20, 12)],
)
def test_the_last_moment_at_which_a_tenant_ran(begin, end, last):
    assert last_within(RUNS, begin, end) == last


def test_nobody_ran():
    assert last_within([], 3, 9) == 3
