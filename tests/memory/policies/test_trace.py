"""What a report says of the memory that was left for offline work."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.node_agent.memory.trace import PARTS, MemorySample, memory_trace

GIB = 2**30


def sample(time: float, available: int) -> MemorySample:
    return MemorySample(time, available)


def trace(*samples: MemorySample, end: float = 100.0, window: float = 60.0) -> list[int]:
    found = memory_trace(samples, end, window)
    assert found
    return found


def mean(parts: Sequence[int], function: Callable[[float], float]) -> float:
    """As a reader of a report takes it."""
    return sum(map(function, parts)) / len(parts)


@pytest.mark.parametrize(
    ("samples", "end"),
    [([], 100.0), ([sample(100.0, 5)], 100.0), ([sample(100.0, 5), sample(100.0, 6)], 100.0)],
)
def test_without_any_time_there_is_no_trace(samples: list[MemorySample], end: float) -> None:
    assert memory_trace(samples, end, 60.0) == []


@pytest.mark.parametrize("first", [90.0, 40.0, 39.0, 0.0])
def test_only_the_window_counts_and_of_it_what_was_sampled(first: float) -> None:
    assert trace(sample(first, 5)) == [5]
    assert trace(sample(0, 7), sample(39.0, 5)) == [5]


def test_a_sample_holds_until_the_next() -> None:
    assert trace(sample(0, 900), sample(70, 100), sample(85, 500)) == [100, 500, 900, 900]


def test_a_part_between_two_amounts_is_their_mean() -> None:
    # 1.5 parts of 64, then 30.5 of 128.
    found = trace(sample(0, 64), sample(1.5, 128), end=32.0, window=32.0)
    assert found == [64, 96] + [128] * 30
    found = trace(sample(0, 128), sample(0.25, 64), sample(0.5, 32), end=32.0, window=32.0)
    assert found == [32] * 31 + [round(0.25 * 128 + 0.25 * 64 + 0.5 * 32)]


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ([900, 900], [900]),
        ([100, 900], [100, 900]),
        ([100, 500, 500, 900], [100, 500, 500, 900]),
        ([100, 500, 900, 900], [100, 500, 900, 900]),
        ([100, 100, 900, 900], [100, 900]),
        ([900] * 31 + [100], [100] + [900] * 31),
    ],
)
def test_as_few_parts_are_told_as_say_the_same(memory: list[int], expected: list[int]) -> None:
    length = 32.0 / len(memory)
    found = trace(*(sample(length * n, amount) for n, amount in enumerate(memory)), end=32.0, window=32.0)
    assert found == expected


amounts = st.integers(0, 80 * GIB)


@st.composite
def histories(draw: st.DrawFn) -> list[MemorySample]:
    time, found = 0.0, []
    for _ in range(draw(st.integers(1, 30))):
        found.append(sample(time, draw(amounts) + draw(st.sampled_from([0, 0, GIB, 7 * GIB]))))
        time += draw(st.sampled_from([0.0, 0.5, 0.5, 3.0, 40.0, 1 / 3]))
    return found


def full(samples: Sequence[MemorySample], end: float, function: Callable[[float], float]) -> float:
    """Mean of a function over the whole trace."""
    spans = [(later - one.time, one.available) for one, later in pairwise_ends(samples, end)]
    return sum(span * function(memory) for span, memory in spans) / sum(span for span, _ in spans)


def pairwise_ends(samples: Sequence[MemorySample], end: float) -> list[tuple[MemorySample, float]]:
    return [(one, later.time) for one, later in pairwise(samples)] + [(samples[-1], end)]


@given(histories(), st.floats(0.1, 50), amounts)
def test_the_mean_of_a_monotone_function_is_off_by_a_32nd_of_its_range_at_most(
    samples: list[MemorySample], rest: float, step: int
) -> None:
    end = samples[-1].time + rest
    found = trace(*samples, end=end, window=end)
    highest = max(one.available for one in samples)
    for function in (
        lambda memory: 1.0 if memory >= step else 0.0,
        lambda memory: memory / (memory + 4 * GIB),
        lambda memory: min(1.0, memory / max(1, step)) ** 2,
        lambda memory: -memory / GIB,
    ):
        lowest = min(one.available for one in samples)
        bound = abs(function(highest) - function(lowest)) / PARTS
        assert abs(mean(found, function) - full(samples, end, function)) <= bound + 1e-6


@given(histories(), st.floats(0.1, 50), st.integers(1, 100 * GIB))
def test_the_mean_shortfall_is_off_by_a_128th_of_its_part_at_most(
    samples: list[MemorySample], rest: float, wanted: int
) -> None:
    end = samples[-1].time + rest
    found = trace(*samples, end=end, window=end)
    held = [one.available for one in samples]

    def shortfall(memory: float) -> float:
        return max(0.0, wanted - memory)

    error = abs(mean(found, shortfall) - full(samples, end, shortfall))
    assert error <= (max(held) - min(held)) / (4 * PARTS) + 1


def test_the_errors_on_a_bursty_day_are_far_below_the_bounds() -> None:
    source = random.Random(1)
    samples, free = [], 60 * GIB
    for number in range(4000):
        free = min(70 * GIB, free + GIB // 8) if source.random() > 0.02 else source.randint(GIB, free)
        samples.append(sample(float(number), free))
    found = trace(*samples, end=4000.0, window=4000.0)
    for wanted in (8 * GIB, 30 * GIB, 60 * GIB):

        def loss(memory: float, wanted: int = wanted) -> float:
            return max(0.0, wanted - memory) / wanted

        def curve(memory: float, wanted: int = wanted) -> float:
            return min(1.0, memory / wanted) ** 0.5

        assert mean(found, loss) == pytest.approx(full(samples, 4000.0, loss), abs=0.002)
        assert mean(found, curve) == pytest.approx(full(samples, 4000.0, curve), abs=0.002)


def test_a_trace_is_small() -> None:
    source = random.Random(2)
    samples = [sample(n / 3, source.randint(0, 141 * GIB)) for n in range(20_000)]
    assert len(trace(*samples, end=6700.0, window=6600.0)) == PARTS


@given(histories(), st.floats(0.1, 50))
def test_the_parts_are_in_order_and_keep_the_mean(samples: list[MemorySample], rest: float) -> None:
    end = samples[-1].time + rest
    found = trace(*samples, end=end, window=end)
    assert found == sorted(found)
    assert mean(found, lambda memory: memory) == pytest.approx(full(samples, end, lambda memory: memory), abs=1.0)
