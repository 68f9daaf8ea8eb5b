"""Late requests beside offline work and without, and whose fault they are."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_builders import device, online, report, requests

from rowen.crds.harvest.latency_counts import BOUNDS_SECONDS, CELLS, LatencyCounts, RequestCounts, cell_of
from rowen.crds.harvest.node_harvest import DeviceHarvest
from rowen.crds.service.online_service import Slo
from rowen.operator.services.objective import Objective, Verdict, dated, objectives, objectives_by_type, worst
from rowen.operator.services.proportions import Proportion

SLO = Slo.from_wire({"ttft": {"target": "500ms"}, "tpot": {"percentile": 90, "target": "50ms"}})
NOBODY = Proportion()


def p99(beside: Proportion = NOBODY, without: Proportion = NOBODY, past: Proportion = NOBODY) -> Objective:
    return Objective("ttft", 99, 0.5, beside, without, past)


def devices(*windows: dict[str, Any], **more: Any) -> tuple[DeviceHarvest, ...]:
    return report(device(online=online(requests=list(windows))), **more).devices


def test_the_scale_has_20_cells_in_a_decade() -> None:
    assert (BOUNDS_SECONDS[0], BOUNDS_SECONDS[20], BOUNDS_SECONDS[-1], CELLS) == (0.0001, 0.001, 100.0, 122)
    assert [cell_of(seconds) for seconds in (0.0, 0.0001, 0.00010001, 0.001, 0.00101, 100.0, 101.0)] == [
        0, 0, 1, 20, 21, 120, 121,
    ]  # fmt: skip
    assert all(1.12 < after / before < 1.123 for before, after in pairwise(BOUNDS_SECONDS))


def test_counts_above_an_objective_are_those_of_the_cells_beyond_its_own() -> None:
    counts = LatencyCounts.of({cell_of(0.01): 5, cell_of(0.5): 3, cell_of(0.53): 2, cell_of(2.0): 1, cell_of(500.0): 1})
    assert counts is not None
    assert (counts.first, counts.requests, counts.valid) == (40, 12, True)
    # 0.5 s lies in the cell that ends at 0.5012 s, 0.53 s in the next one.
    assert (counts.above(0.5), counts.above(0.4), counts.above(0.001), counts.above(100.0)) == (4, 7, 12, 1)
    assert (counts.above(1e6), LatencyCounts.of({}), LatencyCounts.of({3: 0})) == (0, None, None)


def test_the_reports_of_all_devices_are_added_up() -> None:
    one = devices(
        requests({0.1: 90, 0.9: 10}, {0.01: 50, 0.06: 7}, offline=True),
        requests({0.1: 40, 0.9: 1}),
        requests({0.1: 300, 0.9: 2}, seconds=3600),
    )
    other = devices(requests({0.1: 10, 0.9: 5}, offline=True), requests({0.2: 9}), node="other")
    idle = report(device(), device(online=online())).devices
    ttft, tpot = objectives(SLO, [*one, *other, *idle])
    assert ttft == p99(Proportion(15, 115), Proportion(1, 50), Proportion(2, 302))
    assert tpot == Objective("tpot", 90, 0.05, Proportion(7, 57))
    assert (ttft.allowed, tpot.allowed, ttft.all) == (0.01, 0.1, Proportion(16, 165))


def test_fault_is_told_apart_by_device_type() -> None:
    """Slow devices are harvested and late in any case; fast ones are neither."""
    slow, fast = requests({0.1: 600, 0.9: 400}, offline=True), requests({0.1: 1000})
    held = [
        device("s0", type="slow", online=online(requests=[slow])),
        device("f0", type="fast", online=online(requests=[fast])),
        device("f1", type="fast", online=online(requests=[fast])),
    ]
    both = report(*held).devices
    assert objectives(SLO, both)[0].verdict() is Verdict.HARVEST
    fast_ttft, _, slow_ttft, _ = objectives_by_type(SLO, both)
    assert (fast_ttft.device_type, fast_ttft.without) == ("fast", Proportion(0, 2000))
    assert (slow_ttft.device_type, slow_ttft.beside) == ("slow", Proportion(400, 1000))
    assert worst(objectives_by_type(SLO, both)) == (Verdict.UNTESTED, (slow_ttft,))
    assert slow_ttft.told().startswith("400 of 1000 requests (40.0%; p99 allows 1%) on slow beside offline work took")
    assert slow_ttft.parts_told() == "400 of 1000 (40.0%) on slow beside offline work, too few without it to compare"
    assert objectives_by_type(SLO, both[1:]) == objectives(SLO, both[1:])
    assert objectives_by_type(SLO, ()) == ()


@pytest.mark.parametrize(
    "bad",
    [
        {"first": -1, "counts": [500]},
        {"first": 121, "counts": [1, 500]},
        {"first": 100, "counts": [600, -1]},
        {"first": 10**18, "counts": [500]},
        {"first": 90, "counts": []},
        # 8,000 a second for ten minutes, and one.
        {"first": 90, "counts": [4_800_000, 1]},
        {"first": 90, "counts": [10**15]},
        # Not base64; the last number is cut off; nothing at all.
        "!",
        "WoA=",
        "",
    ],
)
def test_counts_that_cannot_be_are_passed_over(bad: dict[str, Any] | str) -> None:
    window = {"offline": True, "seconds": 600, "ttft": bad, "tpot": {"first": 60, "counts": [4]}}
    unknown = {"offline": True, "seconds": 77, "ttft": {"first": 100, "counts": [500]}}
    ttft, tpot = objectives(SLO, devices(window, unknown, requests({0.1: 3}, offline=True)))
    assert (ttft.beside, tpot.beside) == (Proportion(0, 3), Proportion(4, 4))


def test_one_node_cannot_outweigh_the_others() -> None:
    most = {"offline": True, "seconds": 600, "ttft": {"first": 90, "counts": [4_800_000]}}
    assert objectives(SLO, devices(most))[0].beside == Proportion(4_800_000, 4_800_000)
    hour = {"offline": False, "seconds": 3600, "ttft": {"first": 90, "counts": [28_800_000]}}
    assert objectives(SLO, devices(hour))[0].past == Proportion(28_800_000, 28_800_000)


def test_what_is_read_survives_fields_of_another_version() -> None:
    window = {**requests({0.1: 3}), "new": 1}
    assert RequestCounts.from_wire(window).ttft == LatencyCounts(first=60, counts=[3])


FEW, MANY = Proportion(0, 99), Proportion(5, 100)
"""Of 100 requests 5 are the least that miss a p99 by Newcombe's lower end at z = 3.09: 0.0117; of 4 it is 0.0078."""


@pytest.mark.parametrize(
    ("objective", "verdict"),
    [
        (p99(), Verdict.NONE),
        (p99(Proportion(99, 99), Proportion(0, 1000)), Verdict.NONE),
        (p99(Proportion(4, 100), Proportion(0, 1000)), Verdict.NONE),
        (p99(MANY, Proportion(0, 1000)), Verdict.HARVEST),
        # Too few without, in the ten minutes and in the hour.
        (p99(MANY, NOBODY, FEW), Verdict.UNTESTED),
        # Six times 16 in an hour are too few, six times 17 are not: they are waited for.
        (p99(MANY, Proportion(0, 16), FEW), Verdict.UNTESTED),
        (p99(MANY, Proportion(0, 17), FEW), Verdict.NONE),
        (p99(MANY, FEW, Proportion(0, 1000)), Verdict.HARVEST),
        # 100 without are too few to tell 5 % from none.
        (p99(MANY, Proportion(0, 100)), Verdict.NONE),
        (p99(Proportion(30, 100), Proportion(0, 100)), Verdict.HARVEST),
        # Missed without, too, beside offline work or not.
        (p99(Proportion(50, 1000), Proportion(50, 1000)), Verdict.SERVICE),
        (p99(NOBODY, Proportion(50, 1000)), Verdict.SERVICE),
        (p99(Proportion(80, 1000), Proportion(50, 1000)), Verdict.SERVICE),
        # The difference is 0.35 - 0.05, and certainly more than 0.05.
        (p99(Proportion(350, 1000), Proportion(50, 1000)), Verdict.HARVEST),
        # The last ten minutes go before the hour.
        (p99(Proportion(50, 1000), Proportion(50, 1000), Proportion(0, 6000)), Verdict.SERVICE),
        # Harvesting that makes it better.
        (p99(Proportion(50, 1000), Proportion(500, 1000)), Verdict.SERVICE),
    ],
)
def test_whose_fault_it_is(objective: Objective, verdict: Verdict) -> None:
    assert objective.verdict() is verdict


def test_the_gravest_verdict_rests_on_those_that_have_it() -> None:
    harmed, fine = p99(MANY, Proportion(1, 1000)), replace(p99(), latency="tpot")
    assert worst([fine, harmed]) == (Verdict.HARVEST, (harmed,))
    both = harmed, replace(harmed, latency="tpot")
    assert worst(both) == (Verdict.HARVEST, both)
    assert worst([]) == (Verdict.NONE, ())


@pytest.mark.parametrize(
    ("objective", "told", "parts"),
    [
        (
            p99(MANY, Proportion(1, 1000)),
            "5 of 100 requests (5.0%; p99 allows 1%) beside offline work took longer than 500 ms to the first token "
            "(TTFT), and 1 of 1000 (0.1%) without it",
            "5 of 100 (5.0%) beside offline work, 1 of 1000 (0.1%) without it",
        ),
        (
            p99(Proportion(9, 100), NOBODY, Proportion(1, 500)),
            "9 of 100 requests (9.0%; p99 allows 1%) beside offline work took longer than 500 ms to the first token "
            "(TTFT), and 1 of 500 (0.2%) without it in the hour before",
            "all of them were served beside offline work, 1 of 500 (0.2%) without it in the last hour",
        ),
        (
            p99(Proportion(9, 100), Proportion(1, 10)),
            "9 of 100 requests (9.0%; p99 allows 1%) beside offline work took longer than 500 ms to the first token "
            "(TTFT), and too few were served without it to compare",
            "9 of 100 (9.0%) beside offline work, too few without it to compare",
        ),
        (
            p99(NOBODY, Proportion(5, 100)),
            "no request was served beside offline work, and 5 of 100 requests (5.0%; p99 allows 1%) without it took "
            "longer than 500 ms to the first token (TTFT)",
            "no request was served beside offline work",
        ),
        (
            replace(p99(NOBODY, Proportion(5, 100)), device_type="slow"),
            "no request was served on slow beside offline work, and 5 of 100 requests (5.0%; p99 allows 1%) without it "
            "took longer than 500 ms to the first token (TTFT)",
            "no request was served on slow beside offline work, 5 of 100 (5.0%) without it",
        ),
        (
            p99(NOBODY, Proportion(1, 10), Proportion(5, 100)),
            "no request was served beside offline work, and 5 of 100 requests (5.0%; p99 allows 1%) without it in the "
            "hour before took longer than 500 ms to the first token (TTFT)",
            "no request was served beside offline work, 5 of 100 (5.0%) without it in the last hour",
        ),
        (
            p99(),
            "no request was served beside offline work, and too few were served without it to compare",
            "no request was served beside offline work, too few without it to compare",
        ),
    ],
)
def test_figures_are_told_apart_by_offline_work(objective: Objective, told: str, parts: str) -> None:
    """`parts_told` stands behind the figures of all, and has none of them again."""
    assert (objective.told(), objective.parts_told()) == (told, parts)


def test_figures_that_stay_say_of_when_they_are() -> None:
    both = p99(MANY), replace(p99(MANY), latency="tpot")
    assert dated(both, 0.0) == f"in the 10 min before 1970-01-01T00:00:00Z {both[0].told()}; {both[1].told()}"


def test_a_target_of_a_second_and_more_is_told_in_seconds() -> None:
    assert "longer than 1.5 s to the first token" in replace(p99(MANY), target_seconds=1.5).told()


parts = st.integers(0, 3000).flatmap(lambda of: st.builds(Proportion, st.integers(0, of), st.just(of)))


@given(parts, parts, parts)
def test_more_late_requests_beside_offline_work_never_excuse_it(
    beside: Proportion, without: Proportion, past: Proportion
) -> None:
    before = p99(beside, without, past).verdict()
    if beside.count < beside.of:
        assert p99(Proportion(beside.count + 1, beside.of), without, past).verdict() >= before


@given(parts, parts, parts)
def test_more_late_requests_without_never_accuse_it(beside: Proportion, without: Proportion, past: Proportion) -> None:
    accused = p99(beside, without, past).verdict() is Verdict.HARVEST
    if without.count < without.of and not accused:
        assert p99(beside, Proportion(without.count + 1, without.of), past).verdict() is not Verdict.HARVEST


@given(st.dictionaries(st.integers(0, CELLS - 1), st.integers(0, 50)), st.floats(0.0, 1e4))
def test_counts_keep_what_they_are_made_of(cells: dict[int, int], seconds: float) -> None:
    counts = LatencyCounts.of(cells)
    late = sum(count for cell, count in cells.items() if cell > cell_of(seconds))
    assert (
        (counts.requests, counts.above(seconds), counts.valid) == (sum(cells.values()), late, True)
        if counts
        else (not any(cells.values()))
    )
