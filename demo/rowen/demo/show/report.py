"""The report of a run: figures, checks, a picture and what to try next."""

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rowen.cluster import environment
from rowen.demo.show.picture import Drawing, draw, shares
from rowen.demo.show.view import bound, milliseconds
from rowen.demo.show.world import DeviceRecord, World
from rowen.demo.traffic.excerpt import ATTRIBUTION
from rowen.demo.traffic.replay import Outcome
from rowen.demo.verdict import checks
from rowen.demo.verdict.blame import tpot_samples, ttft_samples
from rowen.demo.verdict.checks import Check, PodEvidence
from rowen.demo.verdict.exposure import doubt, exposures
from rowen.demo.verdict.lateness import Lateness, lateness
from rowen.demo.verdict.memory import MIB, MemorySummary, PoolReading, summarize
from rowen.demo.verdict.objective import Objective
from rowen.demo.verdict.statistics import Latency, Span, latency, percentile, tpots, ttfts, union
from rowen.demo.verdict.timeline import ServedRequest, Transition, holder_spans, offline_spans


@dataclass(frozen=True)
class Run:
    """All that a run has left to report on."""

    service: str
    jobs: tuple[str, ...]
    objective: Objective
    started: float
    """Unix time of the replay's start."""
    seconds: float
    """Length of the replay."""
    expected_requests: int
    outcomes: Sequence[Outcome]
    world: World
    found: PodEvidence


@dataclass(frozen=True)
class DeviceSummary:
    """A device that the service ran on, during the replay."""

    name: str
    online_share: float
    """Fraction of the time with a request in flight."""
    offline_share: float
    """Fraction of the time that offline work held it."""
    harvested_of_idle: float
    """Part of the time without requests that offline work held it; NaN where there was none."""
    preemptions: int
    """Closes of the gate that stopped running offline work."""
    stop_ms_p50: float
    stop_ms_p99: float
    memory: MemorySummary | None
    """Whose the pool was; None where memory does not change its owner."""


@dataclass(frozen=True)
class Report:
    """What is printed and written."""

    latency: Latency
    replayer: Lateness
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
    held = holder_spans(in_flight_spans(run.outcomes), _offline(record, run), run.started, end)
    part = shares(held)
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
        memory=summarize(record.pool, run.started, end),
    )


def _offline(record: DeviceRecord, run: Run) -> list[Span]:
    return offline_spans(record.transitions.values(), record.present, run.started, run.started + run.seconds)


def make_report(run: Run) -> Report:
    """Figures and checks of a run."""
    serving = run.world.serving(run.service)
    devices = tuple(summarize_device("/".join(key), record, run) for key, record in serving)
    end = run.started + run.seconds
    stops = [transition for _, record in serving for transition in stopping(record, run.started, end)]
    times = [transition.latency * 1000 for transition in stops if transition.latency is not None]
    per_request = [request.preemptions for _, record in serving for request in served(record, run.started)]
    replayer = lateness(run.outcomes)
    return Report(
        latency=latency(run.outcomes),
        replayer=replayer,
        devices=devices,
        checks=(
            checks.service_ready(run.world.readiness),
            checks.requests_answered(run.outcomes, run.expected_requests),
            *_objective_checks(run, [record for _, record in serving], replayer),
            *(checks.job_finished(run.world.job_result(name)) for name in run.jobs),
            checks.adapter_loads(run.found),
            checks.loss_is_lower(run.found),
            checks.rows_exactly_once(run.found),
            checks.preempted(len(stops), (percentile(times, 50), percentile(times, 99))),
            checks.at_most_one_each(per_request),
            checks.memory_changed_owner([device.memory for device in devices]),
        ),
    )


def served(record: DeviceRecord, start: float) -> list[ServedRequest]:
    """Requests that ended on the device from `start` on."""
    return [request for request in record.requests.values() if request.end >= start]


def _objective_checks(run: Run, devices: Sequence[DeviceRecord], replayer: Lateness) -> tuple[Check, Check]:
    """What the users saw, against what the service promises them."""
    transitions = [transition for record in devices for transition in record.transitions.values()]
    # Requests that failed were in flight too, and may have met the stop that others waited behind.
    every = zip(run.outcomes, exposures(run.outcomes, transitions), strict=True)
    found = [(outcome, exposure) for outcome, exposure in every if outcome.error is None]
    if len(devices) == 1:
        unsure = doubt([exposure for _, exposure in found], served(devices[0], run.started))
    else:
        unsure = f"the agents tell of {len(devices)} devices of the service, and requests can be followed on one only"
    return (
        checks.objective_kept("time to first token", ttft_samples(found), run.objective.ttft, unsure, replayer),
        checks.objective_kept("time per output token", tpot_samples(found), run.objective.tpot, unsure, replayer),
    )


def write(run: Run, report: Report, folder: Path) -> None:
    """Writes `report.json` and, where a device served, `timeline.png`. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    value: dict[str, Any] = dataclasses.asdict(report) | {
        "passed": report.passed,
        "objective": dataclasses.asdict(run.objective),
        "started": run.started,
        "seconds": run.seconds,
        "traffic": ATTRIBUTION,
        "outcomes": [dataclasses.asdict(outcome) for outcome in run.outcomes],
        "pools": {
            "/".join(key): [_reading(reading) for reading in record.pool]
            for key, record in run.world.serving(run.service)
        },
    }
    (folder / "report.json").write_text(json.dumps(_without_nan(value), indent=1) + "\n", encoding="utf-8")
    end = run.started + run.seconds
    for key, record in run.world.serving(run.service)[:1]:
        held = holder_spans(in_flight_spans(run.outcomes), _offline(record, run), run.started, end)
        drawing = Drawing(
            start=run.started,
            end=end,
            device="/".join(key),
            outcomes=run.outcomes,
            held=held,
            ttft=run.objective.ttft,
            pool=record.pool,
            source=ATTRIBUTION,
        )
        draw(drawing, folder / "timeline.png")


def _reading(reading: PoolReading) -> dict[str, Any]:
    return {"at": reading.at, **reading.owners.to_wire(), "reclaimed": dataclasses.asdict(reading.reclaimed)}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def show(report: Report, run: Run, console: Console) -> None:
    """Prints the figures and the checks."""
    table = Table(title="What the users of the service saw", title_justify="left")
    for title in ("", "p50", "p99", "at the SLO's percentile", "SLO"):
        table.add_column(title, justify="left" if not title else "right")
    for name, values, target in (
        ("time to first token", ttfts(run.outcomes), run.objective.ttft),
        ("time per output token", tpots(run.outcomes), run.objective.tpot),
    ):
        found = (percentile(values, percent) for percent in (50, 99, target.percentile))
        table.add_row(name, *map(milliseconds, found), bound(target))
    console.print(table)
    if run.outcomes:
        console.print(report.replayer.told().capitalize(), highlight=False, soft_wrap=True)
    for device in report.devices:
        console.print(
            f"{device.name}: serving {device.online_share:.0%} of the time, offline jobs {device.offline_share:.0%} "
            f"({device.harvested_of_idle:.0%} of the idle time); {device.preemptions} preemptions, stopped in "
            f"p50 {device.stop_ms_p50:.2f} ms, p99 {device.stop_ms_p99:.2f} ms",
            highlight=False,
            soft_wrap=True,
        )
        if device.memory is not None:
            console.print(_memory_line(device.name, device.memory), highlight=False, soft_wrap=True)
    console.print()
    for check in report.checks:
        console.print(Text.assemble(_mark(check), (check.name, "bold"), f": {check.evidence}"), soft_wrap=True)
    console.print(_verdict(report))


def _memory_line(name: str, memory: MemorySummary) -> str:
    return (
        f"{name}: of the pool the service had up to {memory.online_max / MIB:.0f} MiB, in use up to "
        f"{memory.online_used_max / MIB:.0f}, offline jobs up to {memory.offline_max / MIB:.0f}; {memory.reclaims} "
        f"reclaims took {memory.reclaimed / MIB:.0f} MiB back for the service or new pods"
    )


def _verdict(report: Report) -> Text:
    missed, count = sum(not check.passed for check in report.checks), len(report.checks)
    if not missed:
        return Text(f"All {count} checks hold.", style="bold green")
    if report.passed:
        slow = f"{count - missed} of {count} checks hold; for the other {missed} this machine is too slow."
        return Text(slow, style="bold yellow")
    if all(check.passed or check.slow or check.busy for check in report.checks):
        busy = f"{count - missed} of {count} checks hold; for the others this machine was too busy or is too slow: "
        return Text(f"{busy}nothing is shown by that, so run it again with less beside it.", style="bold yellow")
    return Text(f"{missed} of {count} checks do not hold.", style="bold red")


def _mark(check: Check) -> Text:
    if check.passed:
        return Text(" ok   ", style="bold green")
    if check.busy:
        return Text(" BUSY ", style="bold yellow")
    if check.slow:
        return Text(" SLOW ", style="bold yellow")
    return Text(" FAIL ", style="bold red")


def show_next(namespace: str, folder: Path, console: Console) -> None:
    """Prints what to try next."""
    console.print(
        f"""
Open {folder / "timeline.png"} for the picture; {folder / "report.json"} has every request.

What to try next, in any shell, after this line:
  {environment.line()}

  kubectl get rowen -A                                      all of Rowen's objects; ojob,osvc: without the nodes
  kubectl describe ojob -n {namespace} support-lora             conditions, events, why it was placed where it was
  kubectl rowen explain -n {namespace} support-lora             the scheduler's reasons
  kubectl get nh -o yaml                                    what the agents see of their devices
  kubectl port-forward -n {namespace} service/chat 8000         then: curl localhost:8000/v1/models
  kubectl port-forward -n rowen-agent daemonset/rowen-agent 9090     then: curl localhost:9090/metrics
  make down                                                 in the checkout: takes the cluster away again""",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
