"""One service: cuts of time change nothing, and the headroom is the agent's."""

import numpy as np
import pytest

from rowen.crds.service.online_service import HarvestMemory
from rowen.simulator.node.engine import Engine
from rowen.simulator.node.memory import Mapped, Pool, left
from rowen.simulator.node.service import Carry, Feed, Hardware, RequestFeed
from rowen.simulator.node.stretches import Plan, stretches
from rowen.simulator.node.usage import UsageFeed
from rowen.simulator.requests import Requests
from rowen.simulator.sources.example import Example
from rowen.simulator.traces.alibaba import Usage

GIB = 1 << 30
HARDWARE = Hardware(devices=1, pool_bytes=48 * GIB, handle_bytes=2 << 20, memory=HarvestMemory())
USAGE = Usage(np.array([0.0, 60.0, 120.0]), np.full(3, 60.0), np.array([0.5, 0.0, 1.0]), np.array([21.0, 30, 20]) * GIB)
FEEDS = [RequestFeed(Example(0.3, 1)), UsageFeed((USAGE,), 180.0, 1)]


class Given:
    """Two requests: a second of prefill and four of decoding, from 10 s and from 100 s on."""

    def between(self, service: int, start: float, end: float) -> Requests:
        return Requests(np.array([10.0, 100.0]), np.array([100.0, 100.0]), np.array([40.0, 40.0])).between(start, end)


ENGINE = Engine(
    prefill_seconds=0.0, prefill_tokens_per_second=100.0, decode_seconds=0.1, decode_gap_seconds=0.1,
    kv_bytes_per_token=100 << 20,
)  # fmt: skip


def test_two_requests_by_hand() -> None:
    edges = np.array([0.0, 60.0, 120.0])
    stretch, carry = RequestFeed(Given()).advance(0, ENGINE, HARDWARE, edges, Carry())
    assert stretch.busy.tolist() == pytest.approx([0.0, 5.0, 10.0])
    assert stretch.closed.tolist() == pytest.approx([0.0, 5.2, 10.4])
    assert stretch.gate.begins.tolist() == [10.0, 100.0]
    assert stretch.requests == 2
    assert len(carry.served.ends) == 0
    # Cells of 60/64 s: 5.2 s are 5.5 of them.
    assert [int(cells).bit_count() for cells in stretch.cells] == [6, 5]
    # From 10.67 of the cells' lengths to 16.21 of them.
    assert int(stretch.cells[0]) == 0b111111 << 11


def test_the_engine_keeps_what_it_uses_and_its_headroom() -> None:
    edges = np.array([0.0, 60.0, 120.0])
    stretch, _ = RequestFeed(Given()).advance(0, ENGINE, HARDWARE, edges, Carry())
    # 140 tokens of 100 MiB are 13.7 GiB; used / H stays below 0.9.
    assert all(stretch.available <= (48 - 13.67 / 0.9) * GIB)
    assert all(stretch.available > (48 - 13.67 / 0.9 * 1.3) * GIB)


def test_a_request_across_the_cut_counts_on_both_sides() -> None:
    feed = RequestFeed(Given())
    first, carry = feed.advance(0, ENGINE, HARDWARE, np.array([0.0, 12.0]), Carry())
    second, _ = feed.advance(0, ENGINE, HARDWARE, np.array([12.0, 24.0]), carry)
    assert first.closed.tolist() == pytest.approx([0.0, 2.0])
    assert second.closed.tolist() == pytest.approx([0.0, 3.2])


def test_duty_lies_at_the_beginning_of_each_sample() -> None:
    edges = np.arange(0.0, 361.0, 180.0)
    stretch, _ = FEEDS[1].advance(0, Engine(), HARDWARE, edges, Carry())
    # 30 s and 60 s of each turn; the cooldown of 8 ms follows, but not between two that touch.
    assert np.diff(stretch.busy) == pytest.approx(90.0)
    assert np.diff(stretch.closed) == pytest.approx(90.008, abs=0.01)


@pytest.mark.parametrize("feed", FEEDS, ids=lambda feed: type(feed).__name__)
@pytest.mark.parametrize(("steps", "processes"), [(7, 0), (60, 1)])
def test_neither_the_cuts_nor_the_processes_change_anything(feed: Feed, steps: int, processes: int) -> None:
    plan = Plan(feed, Engine(), HARDWARE, services=5, gates=True)
    edges = np.arange(121) * 60.0
    (whole,) = stretches(plan, edges, 120, 0)
    parts = list(stretches(plan, edges, steps, processes))
    assert np.concatenate([np.diff(part.closed, axis=1) for part in parts], axis=1) == pytest.approx(
        np.diff(whole.closed, axis=1), abs=1e-6
    )
    assert np.array_equal(np.concatenate([part.available for part in parts], axis=1), whole.available)
    assert sum(len(part.gates) for part in parts) == 5 * len(parts)


def test_headroom_rises_with_pressure_and_falls_again() -> None:
    pool = Pool(total=1000, bound=800, settings=HarvestMemory())
    quiet = left(pool, [0] * 400, 0.0, 60.0, Mapped())
    assert quiet.available[0] <= 950
    assert quiet.available[-1] == 999
    pressed = left(pool, [700] * 3, 24_000.0, 60.0, quiet.end)
    assert pressed.reclaims == 1
    assert pressed.available[0] == 200
    assert 200 < pressed.available[-1] < 300
    assert pressed.end.taken > 700


def test_an_engine_without_a_pool_leaves_all_of_it() -> None:
    assert left(Pool(10, 0, HarvestMemory()), [3, 4], 0.0, 1.0, Mapped()).available == [10, 10]
