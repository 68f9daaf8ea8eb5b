"""A device's requests by latency, over windows that move on by half a minute."""

import random
from collections.abc import Iterable

from rowen.crds.harvest.latency_counts import RequestCounts, cell_of
from rowen.node_agent.devices.counts import Request
from rowen.node_agent.kubelet.pods import PodView
from rowen.node_agent.report.latencies import Latencies, windows

CHAT = PodView("shop", "chat-0", service="chat")


def request(end: float, ttft: float = 0.1, tpot: float | None = 0.01, *, tenant: bool = False) -> Request:
    return Request(1, end - 1.0, end, ttft, tpot, 0, tenant)


def counted(windows: Iterable[RequestCounts]) -> dict[tuple[bool, int], tuple[int, int]]:
    """How many requests each window has by time to first token, and by time per output token."""
    return {
        (window.offline, window.seconds): tuple(
            counts.requests if counts else 0 for counts in (window.ttft, window.tpot)
        )
        for window in windows
    }


def test_windows_of_ten_minutes_and_an_hour() -> None:
    latencies = Latencies()
    latencies.add([request(7_199.0)], 7_200.0, CHAT)
    latencies.add([request(10_199.0), request(10_200.0, tpot=None)], 10_200.0, CHAT)
    latencies.add([request(10_799.0, tenant=True)], 10_799.0, CHAT)
    # Of the half minute that is not over nothing is told; 10,799 s lie in it until 10,800 s.
    assert counted(windows([latencies], 10_799.0)) == {(False, 600): (2, 1), (False, 3600): (3, 2)}
    latencies.add([], 10_800.0, CHAT)
    assert counted(windows([latencies], 10_800.0)) == {(True, 600): (1, 1), (False, 600): (1, 0), (False, 3600): (2, 1)}
    assert counted(windows([latencies], 11_399.9)) == {(True, 600): (1, 1), (False, 3600): (2, 1)}
    assert counted(windows([latencies], 10_800.0 + 600.0 + 30.0)) == {(False, 3600): (2, 1)}
    assert windows([latencies], 20_000.0) == []


def test_latencies_come_in_cells() -> None:
    latencies = Latencies()
    latencies.add([request(5.0, 0.0, 500.0), request(6.0, 0.3), request(7.0, 0.3)], 29.0, CHAT)
    (recent, _) = windows([latencies], 30.0)
    assert recent.ttft is not None
    assert recent.tpot is not None
    assert (recent.ttft.first, recent.ttft.counts[0], recent.ttft.counts[-1]) == (0, 1, 2)
    assert (recent.ttft.above(0.25), recent.tpot.above(100.0), recent.tpot.first) == (2, 1, cell_of(0.01))


def test_times_that_cannot_be_are_passed_over() -> None:
    latencies = Latencies()
    latencies.add([request(10_030.0), request(1e12), request(0.0), request(6_389.9)], 10_000.0, CHAT)
    assert windows([latencies], 10_000.0) == windows([latencies], 10_030.0) == []
    latencies.add([request(6_390.0), request(10_019.9)], 10_000.0, CHAT)
    assert counted(windows([latencies], 10_020.0)) == {(False, 600): (1, 1), (False, 3600): (1, 1)}
    assert windows([latencies], 1e12) == []


def test_another_service_begins_anew_and_an_engine_that_is_away_for_a_while_does_not() -> None:
    latencies = Latencies()
    latencies.add([request(5.0)], 6.0, None)
    latencies.add([request(7.0)], 8.0, CHAT)
    latencies.add([], 9.0, None)
    latencies.add([request(10.0)], 11.0, PodView("shop", "chat-1", service="chat"))
    assert counted(windows([latencies], 30.0))[False, 600] == (3, 3)
    latencies.add([request(12.0)], 13.0, PodView("shop", "chat-1", service="other"))
    assert counted(windows([latencies], 30.0))[False, 600] == (1, 1)


def test_a_report_says_something_new_once_in_half_a_minute_at_most() -> None:
    latencies, chance = Latencies(), random.Random(1)
    told, changes = None, 0
    for second in range(3000):
        latencies.add([request(second + 0.5, chance.random(), chance.random() / 50)], second + 1.0, CHAT)
        now = windows([latencies], second + 1.0)
        changes += now != told
        told = now
    assert changes <= 3000 / 30 + 1


def test_the_hour_is_told_where_ten_minutes_say_too_little() -> None:
    latencies = Latencies()
    latencies.add([request(5.0)] * 99, 6.0, CHAT)
    assert counted(windows([latencies], 30.0)) == {(False, 600): (99, 99), (False, 3600): (99, 99)}
    latencies.add([request(6.0)], 7.0, CHAT)
    assert counted(windows([latencies], 30.0)) == {(False, 600): (100, 100)}
    latencies.add([request(630.0, tpot=None)] * 100, 630.0, CHAT)
    assert counted(windows([latencies], 660.0)) == {(False, 600): (100, 0), (False, 3600): (200, 100)}


def test_what_is_told_is_small() -> None:
    latencies, chance = Latencies(), random.Random(1)
    for second in range(3600):
        some = [
            request(second + 0.5, chance.lognormvariate(-2.0, 0.8), chance.lognormvariate(-4.0, 0.3), tenant=tenant)
            for tenant in (True, False)
        ]
        latencies.add(some, second + 1.0, CHAT)
    size = sum(len(window.model_dump_json(by_alias=True)) for window in windows([latencies], 3600.0))
    assert size < 700
