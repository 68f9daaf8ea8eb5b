"""What requests hold in an engine's memory, and the traffic that they come from."""

import random

import pytest
from traffic.kv_use import Engine, Holding, holdings, tokens_held
from traffic.traffic import TRACES, bursty, resampled, traffic

from rowen.demo.traffic.excerpt import TraceRow, load

ENGINE = Engine(prefill=100.0, decode=10.0)


def test_prefills_wait_for_each_other_and_decodes_do_not():
    found = holdings([TraceRow(1.0, 200, 50), TraceRow(1.5, 100, 10), TraceRow(9.0, 100, 10)], ENGINE)
    assert found == [
        Holding(1.0, 3.0, 8.0, 200, 50),
        Holding(3.0, 4.0, 5.0, 100, 10),
        Holding(9.0, 10.0, 11.0, 100, 10),
    ]


@pytest.mark.parametrize(
    ("until", "tokens"),
    [(0.9, 0), (1.0, 0), (1.1, 200), (3.0, 200), (3.05, 201), (3.11, 202), (8.0, 250), (99.0, 250)],
)
def test_a_request_holds_its_prompt_and_what_it_has_written(until, tokens):
    assert Holding(1.0, 3.0, 8.0, 200, 50).most(until) == tokens


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        (1.0, [0, 200, 200, 310, 330, 230, 240, 250, 0, 0]),
        (5.0, [330, 250]),
    ],
)
def test_tokens_held(period, expected):
    held = [Holding(1.0, 3.0, 8.0, 200, 50), Holding(3.0, 4.0, 5.0, 100, 10)]
    assert tokens_held(held, period, 10.0) == expected


def test_what_is_held_beyond_the_end_is_left_out():
    assert tokens_held([Holding(0.5, 1.0, 9.0, 10, 80)], 1.0, 2.0) == [10, 20]


def test_stretches_are_put_one_behind_the_other():
    rows = [TraceRow(float(at), at + 1, 1) for at in range(101)]
    found = resampled(rows, 10.0, 35.0, random.Random(1))
    arrivals = [row.arrival for row in found]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] >= 0.0
    assert arrivals[-1] < 35.0
    assert len(found) in (34, 35, 36)
    for number in range(3):
        part = [row.context_tokens for row in found if 10 * number <= row.arrival < 10 * number + 10]
        assert len(part) == 10
        assert part == list(range(part[0], part[0] + 10))


@pytest.mark.parametrize("name", [*TRACES, "bursty"])
def test_traffic_is_drawn_by_its_seed_alone(name):
    first, again, other = (traffic(name, 600.0, random.Random(seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert first == sorted(first, key=lambda row: row.arrival)
    assert all(row.arrival >= 0 and row.context_tokens >= 1 and row.generated_tokens >= 1 for row in first)


def test_there_are_more_bursts_by_day_than_by_night():
    arrivals = [row.arrival for row in bursty(86400.0, random.Random(3))]
    night = sum(at < 3 * 3600 or at > 21 * 3600 for at in arrivals)
    day = sum(9 * 3600 < at < 15 * 3600 for at in arrivals)
    assert day > 3 * night


def test_the_excerpts_are_as_their_description_says():
    code, conv = load(TRACES["code"]), load(TRACES["conv"])
    assert (len(code), len(conv)) == (8819, 3470)
    assert (code[-1].arrival, conv[-1].arrival) == pytest.approx((3436, 720), abs=1)
