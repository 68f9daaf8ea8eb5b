"""What is reported of an engine's steps, and of what rides in them."""

from dataclasses import replace
from typing import Any

import pytest
from reports import TENANT, snapshot

from rowen.crds.harvest.busy import grid
from rowen.crds.harvest.node_harvest import DeviceHarvest
from rowen.crds.ride.messages import StepSums
from rowen.node_agent.kubelet.pods import PodView
from rowen.node_agent.report.change import Written, due
from rowen.node_agent.report.status import device_harvest, node_status
from rowen.node_agent.report.steps import Span, StepWindow, co_serving, step_figures
from rowen.node_agent.ride.view import EngineView

SUMS = StepSums(
    steps=400, seconds=10.0, decode_rows=1000, prefill_tokens=2500, riding_steps=100, forward_tokens=1234,
    solo_tokens=600, backward_tokens=1800, row_tokens=90,
)  # fmt: skip
SPAN = Span(60.0, SUMS)
ENGINE = EngineView(since=5.0, seats=8, sums=SUMS, ended=None)
RIDER = PodView("lab", "ride", job="ride", uid="uid")


def report(**changes: Any) -> DeviceHarvest:
    one = snapshot(**changes)
    return device_harvest(one, [one], window=60.0, over=grid(11000.0, 60.0), unix_offset=10000.0)


def steps(number: int) -> StepSums:
    return StepSums(steps=number, decode_rows=2 * number)


def test_the_first_sample_is_where_counting_begins() -> None:
    window = StepWindow()
    assert window.span() is None
    assert window.add(0.0, None, steps(5000), 60.0) == StepSums()
    assert window.span() is None
    assert window.add(0.5, None, steps(5004), 60.0) == steps(4)
    assert window.span() == Span(0.5, steps(4))


def test_the_span_is_the_window() -> None:
    window = StepWindow()
    for half in range(400):
        assert window.add(half / 2, None, steps(half), 60.0).steps == min(half, 1)
    assert window.span() == Span(60.5, steps(121))
    window = StepWindow()
    for second in range(0, 300, 60):
        window.add(float(second), None, steps(second), 60.0)
    assert window.span() == Span(60.0, steps(60))


def test_a_long_window_is_kept_in_few_samples() -> None:
    window = StepWindow()
    for second in range(2000):
        window.add(float(second), None, steps(second), 600.0)
    assert len(window._samples) <= 62
    assert window.span() == Span(609.0, steps(609))
    window = StepWindow()
    for second in range(5):
        window.add(float(second), None, steps(second), 122.0)
    assert [time for time, _ in window._samples] == [0.0, 3.0]


@pytest.mark.parametrize(("source", "number"), [("other", 130), ("one", 9), ("one", 29)])
def test_another_engine_is_counted_from_its_own_beginning(source: str, number: int) -> None:
    window = StepWindow()
    window.add(0.0, "one", steps(10), 60.0)
    window.add(1.0, "one", steps(30), 60.0)
    assert window.add(2.0, source, steps(number), 60.0) == StepSums()
    assert window.span() is None
    assert window.add(3.0, source, steps(number + 7), 60.0) == steps(7)
    assert window.span() == Span(1.0, steps(7))


def test_an_engine_that_has_told_nothing_yet_does_not_speak_for_the_former() -> None:
    window = StepWindow()
    window.add(0.0, "one", steps(10), 60.0)
    window.add(1.0, "one", steps(30), 60.0)
    window.begin("one")
    assert window.span() == Span(1.0, steps(20))
    window.begin("other")
    assert window.span() is None
    assert window.add(2.0, "other", steps(31), 60.0) == StepSums()
    window.begin("one")
    assert window.add(3.0, "one", steps(32), 60.0) == StepSums()


def test_means_per_step() -> None:
    figures = step_figures(SPAN)
    assert figures is not None
    assert (figures.per_second, figures.seconds) == (6.67, 0.025)
    assert (figures.decode_rows, figures.prefill_tokens) == (2.5, 6.25)
    assert step_figures(Span(60.0, StepSums())) is None
    assert step_figures(None) is None


def test_what_rides() -> None:
    found = co_serving(ENGINE, SPAN)
    assert found is not None
    assert (found.seats, found.riding_fraction, found.ended) == (8, 0.25, None)
    assert (found.forward_tokens_per_second, found.solo_tokens_per_second) == (20.6, 10.0)
    assert (found.backward_tokens_per_second, found.row_tokens_per_second) == (30.0, 1.5)
    assert co_serving(None, SPAN) is None


def test_before_anything_is_known_of_it() -> None:
    found = co_serving(replace(ENGINE, ended="it failed"), None)
    assert found is not None
    assert (found.seats, found.riding_fraction, found.ended) == (8, 0.0, "it failed")
    first = co_serving(ENGINE, Span(60.0, StepSums(steps=1, riding_steps=1)))
    assert first is not None
    assert first.riding_fraction == 1.0
    idle = co_serving(ENGINE, Span(60.0, StepSums()))
    assert idle is not None
    assert idle.riding_fraction == 0.0


def test_an_engine_that_lies_is_clipped() -> None:
    found = co_serving(ENGINE, Span(0.5, StepSums(steps=1, riding_steps=2**63 - 1, solo_tokens=2**63 - 1)))
    assert found is not None
    assert (found.riding_fraction, found.solo_tokens_per_second) == (1.0, 1.84e19)


def test_a_device_tells_who_rides_in_its_engine() -> None:
    device = report(engine=ENGINE, steps=SPAN, riders=((RIDER, replace(TENANT, preemptions=0, backstops=0)),))
    assert device.co_serving is not None
    assert device.steps is not None
    gated, rider = device.tenants
    assert (gated.mode, gated.preemptions) == ("Preempt", 3)
    assert (rider.mode, rider.job, rider.attached, rider.tokens) == ("CoServe", "ride", True, 400)
    assert (rider.completed, rider.total, rider.granted_seconds) == (4, 10, 7.5)


def test_what_its_engine_told_before_it_took_riders_in_is_not_theirs() -> None:
    device = report(engine=replace(ENGINE, sums=None), steps=SPAN)
    assert device.co_serving is not None
    assert device.co_serving.forward_tokens_per_second == 0.0
    assert device.steps is not None


def test_one_that_does_not_co_serve_says_nothing_of_it_on_the_wire() -> None:
    status = node_status([snapshot()], now=11000.0, window=60.0, unix_offset=10000.0)
    [device] = status.to_wire()["devices"]
    assert not {"coServing", "steps"} & device.keys()
    assert "mode" not in device["tenants"][0]


def test_what_rides_is_little_on_the_wire() -> None:
    one = snapshot(engine=ENGINE, steps=SPAN, riders=((RIDER, TENANT),))
    status = node_status([one], now=11000.0, window=60.0, unix_offset=10000.0)
    [device] = status.to_wire()["devices"]
    assert device["coServing"] == {
        "seats": 8, "ridingFraction": 0.25, "forwardTokensPerSecond": 20.6, "soloTokensPerSecond": 10.0,
        "backwardTokensPerSecond": 30.0, "rowTokensPerSecond": 1.5,
    }  # fmt: skip
    assert device["steps"] == {"perSecond": 6.67, "seconds": 0.025, "decodeRows": 2.5, "prefillTokens": 6.25}
    assert device["tenants"][1]["mode"] == "CoServe"
    assert type(status).from_wire(status.to_wire()).devices == status.devices


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"engine": None}, True),
        ({"engine": replace(ENGINE, ended="it failed")}, True),
        ({"engine": replace(ENGINE, seats=4)}, True),
        ({"riders": ((RIDER, replace(TENANT, attached=0)),)}, True),
        ({"riders": ()}, True),
        ({"steps": Span(60.0, StepSums(steps=1, seconds=9.0))}, False),
    ],
)
def test_who_rides_and_whether_anybody_can_is_written_at_once(change: dict[str, Any], expected: bool) -> None:
    now = {"engine": ENGINE, "steps": SPAN, "riders": ((RIDER, TENANT),), "placements": snapshot().placements}
    before, after = (
        node_status([snapshot(**each)], now=11000.0, window=60.0, unix_offset=10000.0)
        for each in (now, {**now, **change})
    )
    assert due(Written(0.0, before), after, 1.0, 60.0) is expected


def test_a_pod_that_goes_over_to_the_other_mode_is_another_tenant() -> None:
    gated = report()
    assert gated.tenants[0].mode == "Preempt"
    statuses = [
        node_status([snapshot()], now=11000.0, window=60.0, unix_offset=10000.0).model_copy(
            update={"devices": [gated.model_copy(update={"tenants": [tenant]})]}
        )
        for tenant in (gated.tenants[0], gated.tenants[0].model_copy(update={"mode": "CoServe"}))
    ]
    assert due(Written(0.0, statuses[0]), statuses[1], 1.0, 60.0)
