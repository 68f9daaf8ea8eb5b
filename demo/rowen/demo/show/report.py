"""The report of a run: figures and checks."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowen.demo.mode import Mode
from rowen.demo.show.picture import shares
from rowen.demo.show.world import DeviceRecord, World
from rowen.demo.traffic.replay import Outcome
from rowen.demo.verdict import checks, riding
from rowen.demo.verdict.before import Before, Pair
from rowen.demo.verdict.checks import Check, PodEvidence
from rowen.demo.verdict.exposure import Exposure, doubt, exposures
from rowen.demo.verdict.lateness import Lateness, lateness
from rowen.demo.verdict.memory import MemorySummary, summarize
from rowen.demo.verdict.objective import Objective
from rowen.demo.verdict.riding import Ridden, RideSummary
from rowen.demo.verdict.sample import Sample, tpot_samples, ttft_samples
from rowen.demo.verdict.statistics import Latency, Span, latency, percentile, union
from rowen.demo.verdict.timeline import Holder, ServedRequest, Transition, holder_spans, offline_spans


@dataclass(frozen=True)
class Run:
    """All that a run has left to report on."""

    mode: Mode
    service: str
    jobs: tuple[str, ...]
    objective: Objective
    started: float
    """Unix time of the replay's start."""
    seconds: float
    """Length of the replay."""
    expected_requests: int
    outcomes: Sequence[Outcome]
    alone: Sequence[Outcome]
    """What became of the same requests before there were jobs; empty where they were not sent then."""
    world: World
    found: PodEvidence


@dataclass(frozen=True)
class DeviceSummary:
    """A device that the service ran on, during the replay."""

    name: str
    online_share: float
    """Fraction of the time with a request in flight."""
    offline_share: float
    """Fraction of the time that offline work held it, behind its gate."""
    harvested_of_idle: float
    """Part of the time without requests that offline work held it; NaN where there was none."""
    preemptions: int
    """Closes of the gate that stopped running offline work."""
    stop_ms_p50: float
    stop_ms_p99: float
    memory: MemorySummary | None
    """Whose the pool was; None where memory does not change its owner."""
    riding: RideSummary | None
    """What rode in its engine; None where that takes no jobs in."""


@dataclass(frozen=True)
class Report:
    """What is printed and written."""

    latency: Latency
    replayer: Lateness
    replayer_before: Lateness | None
    """Before there were jobs; None where nothing was sent then."""
    devices: tuple[DeviceSummary, ...]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check holds, but for those for which the machine is too slow."""
        return all(check.passed or check.slow for check in self.checks)


def in_flight_spans(outcomes: Sequence[Outcome]) -> list[Span]:
    """When at least one request was in flight, as the client saw it."""
    return union((outcome.arrival + max(0.0, outcome.lateness), outcome.end) for outcome in outcomes)


def stopping(record: DeviceRecord, start: float, end: float) -> list[Transition]:
    """Closes within the time that stopped running offline work."""
    return [
        transition
        for transition in record.transitions.values()
        if start <= transition.closed <= end and transition.tenants > 0
    ]


def summarize_device(name: str, record: DeviceRecord, run: Run) -> DeviceSummary:
    """A device's figures over the replay."""
    end = run.started + run.seconds
    part = shares(held(record, run))
    stops = stopping(record, run.started, end)
    times = [transition.latency * 1000 for transition in stops if transition.latency is not None]
    idle = 1.0 - part["online"]
    return DeviceSummary(
        name=name,
        online_share=part["online"],
        offline_share=part["offline"],
        harvested_of_idle=part["offline"] / idle if idle > 0 else math.nan,
        preemptions=len(stops),
        stop_ms_p50=percentile(times, 50),
        stop_ms_p99=percentile(times, 99),
        # The demo's engine has a fixed part of it where jobs ride.
        memory=None if record.rides else summarize(record.pool, run.started, end),
        riding=riding.summarize(record.rides, run.started, end),
    )


def held(record: DeviceRecord, run: Run) -> list[tuple[Span, Holder]]:
    """Who held a device over the replay, without gaps."""
    start, end = run.started, run.started + run.seconds
    offline = offline_spans(record.transitions.values(), record.present, start, end)
    return holder_spans(in_flight_spans(run.outcomes), offline, start, end)


def make_report(run: Run) -> Report:
    """Figures and checks of a run."""
    serving = run.world.serving(run.service)
    devices = tuple(summarize_device("/".join(key), record, run) for key, record in serving)
    records = [record for _, record in serving]
    replayer = lateness(run.outcomes)
    return Report(
        latency=latency(run.outcomes),
        replayer=replayer,
        replayer_before=lateness(run.alone) if run.alone else None,
        devices=devices,
        checks=(
            checks.service_ready(run.world.readiness),
            checks.requests_answered(run.outcomes, run.expected_requests),
            *_objective_checks(run, records, replayer),
            *(checks.job_finished(run.world.job_result(name)) for name in run.jobs),
            checks.adapter_loads(run.found),
            checks.loss_is_lower(run.found),
            checks.rows_exactly_once(run.found),
            *_mode_checks(run, records, devices),
        ),
    )


def _mode_checks(run: Run, records: Sequence[DeviceRecord], devices: Sequence[DeviceSummary]) -> tuple[Check, ...]:
    """What the mode claims."""
    stops = [stop for record in records for stop in stopping(record, run.started, run.started + run.seconds)]
    per_request = [request.preemptions for record in records for request in served(record, run.started)]
    at_most_one_each = checks.at_most_one_each(per_request)
    if run.mode is Mode.CO_SERVE:
        modes = {name: run.world.modes.get(name, Counter()) for name in run.jobs}
        rode = checks.rode_in_engine(modes, sum((riding.total(record.rides) for record in records), Ridden()))
        # Where nothing stands behind a gate there is no stop that a request could meet.
        return (rode, at_most_one_each) if stops else (rode,)
    times = [stop.latency * 1000 for stop in stops if stop.latency is not None]
    return (
        checks.preempted(len(stops), (percentile(times, 50), percentile(times, 99))),
        at_most_one_each,
        checks.memory_changed_owner([device.memory for device in devices]),
    )


def served(record: DeviceRecord, start: float) -> list[ServedRequest]:
    """Requests that ended on the device from `start` on."""
    return [request for request in record.requests.values() if request.end >= start]


def _objective_checks(run: Run, devices: Sequence[DeviceRecord], replayer: Lateness) -> tuple[Check, Check]:
    """What the users saw, against what the service promises them."""
    transitions = [transition for record in devices for transition in record.transitions.values()]
    rides = [span for record in devices for span in riding.riding_spans(record.rides)]
    # Requests that failed were in flight too, and may have met the stop that others waited behind.
    every = list(zip(run.outcomes, exposures(run.outcomes, transitions, rides), strict=True))
    found = [(outcome, exposure) for outcome, exposure in every if outcome.error is None]
    unsure = _doubt(run, devices, [exposure for _, exposure in found])
    latencies = (
        ("time to first token", ttft_samples, run.objective.ttft),
        ("time per output token", tpot_samples, run.objective.tpot),
    )
    ttft, tpot = (
        checks.objective_kept(name, samples(found), target, unsure, replayer, _before(run, every, samples))
        for name, samples, target in latencies
    )
    return ttft, tpot


def _before(
    run: Run,
    every: Sequence[tuple[Outcome, Exposure]],
    samples: Callable[[Sequence[tuple[Outcome, Exposure]]], list[Sample]],
) -> Before | None:
    """The same requests, whose order is the same."""
    if len(run.alone) != len(every):
        return None
    alone = zip(run.alone, exposures(run.alone, ()), strict=True)
    both = [pair for pair in zip(every, alone, strict=True) if all(outcome.error is None for outcome, _ in pair)]
    pairs = [
        Pair(one[0].arrival, jobs, before)
        for one, other in both
        # Of a request of one token there is no time per token, either time.
        for jobs, before in zip(samples([one]), samples([other]), strict=True)
    ]
    return Before(pairs, sum(outcome.error is not None for outcome in run.alone), lateness(run.alone))


def _doubt(run: Run, devices: Sequence[DeviceRecord], found: Sequence[Exposure]) -> str:
    """Why what is known of the requests does not tell who is to blame; empty where it does."""
    if len(devices) != 1:
        return f"the agents tell of {len(devices)} devices of the service, and requests can be followed on one only"
    (record,) = devices
    if run.mode is Mode.CO_SERVE and not riding.told(record.rides, run.started, run.started + run.seconds):
        return "the agent did not tell throughout what rode in the engine"
    return doubt(found, served(record, run.started))
