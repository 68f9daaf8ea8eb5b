"""What the repeats of all arms say: increases against the server alone, harvest, and whether bars are kept."""

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from reporting.blocks import Increase, against_itself, increase, verdict
from reporting.repeat import METRICS, PERCENTS, Repeat
from reporting.report import Figures, Missing

from rowen.demo.verdict.statistics import percentile

FAILED = "requests failed"
"""Why a figure has no value: it is infinite, as requests that failed count as the slowest."""

BARS = {"ttft": 0.05, "tpot": 0.02}
"""Largest increase, as a fraction."""


def compared(repeats: Sequence[Repeat], arm: str, metric: str, percent: float) -> Increase:
    """Increase of a per-repeat percentile of an arm; of `alone`: what noise makes by itself."""
    alone = {repeat.block: repeat.percentile(metric, percent) for repeat in repeats if repeat.arm == "alone"}
    if arm == "alone":
        return against_itself([value for block, value in alone.items() if "rowen" in block.arms])
    own = [repeat for repeat in repeats if repeat.arm == arm]
    return increase([(repeat.percentile(metric, percent), alone[repeat.block]) for repeat in own])


def latency_figures(repeats: Sequence[Repeat], arm: str) -> Figures:
    """Percentiles in ms, medians over the repeats; their increases with intervals, beside what noise makes."""
    own = [repeat for repeat in repeats if repeat.arm == arm]
    figures: dict[str, tuple[float | Missing, str]] = {}
    for metric in METRICS:
        for percent in PERCENTS:
            name = f"{metric}_p{percent}"
            values = [value for repeat in own if not math.isnan(value := repeat.percentile(metric, percent))]
            figures[f"{name}_ms"] = (_finite(median(values) * 1000) if values else Missing("no request has one"), "ms")
            found = compared(repeats, arm, metric, percent)
            estimate = Missing("no block has both") if found.estimate is None else _finite(found.estimate)
            figures[f"{name}_increase"] = (estimate, "fraction")
            figures |= _bounds(f"{name}_increase", found)
            if arm != "alone":
                figures |= _bounds(f"{name}_increase_noise", compared(repeats, "alone", metric, percent))
    return figures


def _bounds(name: str, found: Increase) -> Figures:
    if found.interval is None:
        return {f"{name}_{bound}": (Missing(found.missing), "fraction") for bound in ("low", "high")}
    bounds = {"low": found.interval.low, "high": found.interval.high}
    return {f"{name}_{bound}": (_finite(value), "fraction") for bound, value in bounds.items()}


def _finite(value: float) -> float | Missing:
    return value if math.isfinite(value) else Missing(FAILED)


def compared_errors(repeats: Sequence[Repeat], arm: str) -> int:
    """Requests that failed in an arm, or in the `alone` that it is compared with."""
    blocks = {repeat.block for repeat in repeats if repeat.arm == arm}
    return sum(repeat.errors for repeat in repeats if repeat.arm in (arm, "alone") and repeat.block in blocks)


def count_figures(repeats: Sequence[Repeat], arm: str) -> Figures:
    """How much an arm's figures rest on, and how late the client was."""
    own = [repeat for repeat in repeats if repeat.arm == arm]
    found = compared(repeats, arm, "ttft", 50)
    coverage = Missing(found.missing) if found.interval is None else found.interval.coverage
    lateness = percentile((late * 1000 for repeat in own for late in repeat.lateness), 99)
    return {
        "blocks": (found.blocks, "blocks"),
        "interval_coverage": (coverage, "fraction"),
        "requests": (sum(len(repeat.outcomes) for repeat in own), "requests"),
        "errors": (sum(repeat.errors for repeat in own), "requests"),
        "client_lateness_ms_p99": (lateness, "ms"),
    }


def _common_starts(repeats: Sequence[Repeat]) -> set[float]:
    arms = {repeat.arm for repeat in repeats}
    return set.intersection(*({repeat.block.start for repeat in repeats if repeat.arm == arm} for arm in arms))


def harvest_figures(repeats: Sequence[Repeat], arm: str, solo_speed: float) -> Figures:
    """Throughput of the tenant against what it does with the server idle, and what the idle time allows of that.

    On the stretches that all arms had: one that is busier leaves less to harvest.
    """
    common = _common_starts(repeats)
    own = [repeat for repeat in repeats if repeat.arm == arm and repeat.block.start in common]
    seconds = sum(repeat.seconds for repeat in own)
    idle = sum(repeat.idle for repeat in own)
    if any(repeat.tokens is None for repeat in own):
        return {}
    tokens = sum(repeat.tokens or 0 for repeat in own)
    return {
        "harvest_efficiency": (tokens / (solo_speed * idle) if idle else Missing("no idle time"), "fraction"),
        "idle_fraction": (idle / seconds, "fraction"),
        "offline_part_of_solo": (tokens / seconds / solo_speed, "fraction"),
    }


def gate_figures(repeats: Sequence[Repeat], without_backstop: str | None) -> Figures:
    """What the gate did. `without_backstop`: why the kernel could stop no tenant."""
    own = [repeat for repeat in repeats if repeat.arm == "rowen"]
    stops = [stop * 1000 for repeat in own for stop in repeat.stops]
    per_request = [count for repeat in own for count in repeat.per_request]
    seconds = sum(repeat.seconds for repeat in own)
    backstops = sum(repeat.backstops for repeat in own)
    return {
        "gate_open_fraction": (sum(repeat.gate_open for repeat in own) / seconds, "fraction"),
        "preemptions": (sum(repeat.preemptions for repeat in own), "closes"),
        **({f"stop_ms_p{percent}": (percentile(stops, percent), "ms") for percent in (50, 99)} if stops else {}),
        "cooldown_ms_max": (max(repeat.cooldown for repeat in own) * 1000, "ms"),
        "preemptions_per_request_max": (max(per_request, default=0), "closes"),
        "backstops": (Missing(without_backstop) if without_backstop else backstops, "stops"),
    }


def arm_figures(repeats: Sequence[Repeat], arm: str, solo_speed: float) -> Figures:
    """All figures that each arm has; without a tenant it has no harvest."""
    return {
        **latency_figures(repeats, arm),
        **harvest_figures(repeats, arm, solo_speed),
        **count_figures(repeats, arm),
    }


def verdicts(repeats: Sequence[Repeat], arms: Sequence[str]) -> dict[str, dict[str, str]]:
    """Arm → figure → whether it keeps to its bar."""
    return {
        arm: {
            f"{metric}_p{percent}_increase": verdict(
                compared(repeats, arm, metric, percent), BARS[metric], compared_errors(repeats, arm)
            )
            for metric in METRICS
            for percent in PERCENTS
        }
        for arm in arms
    }


def verdict_lines(obj: dict[str, Any]) -> list[str]:
    """For people: `latency_lines`, and what was unavailable or not steady."""
    lines = latency_lines(obj)
    lines += [f"{arm}: unavailable: {reason}" for arm, reason in obj["unavailable"].items()]
    return lines + [_warm_up_line(server, steady) for server, steady in obj["warm_up_steady"].items()]


def latency_lines(obj: dict[str, Any]) -> list[str]:
    """For people: of each arm a line per figure, with increase, interval, noise and verdict."""
    bars = ", ".join(f"{metric} {bar:+.0%}" for metric, bar in BARS.items())
    lines = [f"increases against the server alone; bars: {bars}"]
    for arm, texts in obj["verdicts"].items():
        rows = obj["figures"] if arm == "rowen" else obj["baselines"][arm]
        harvest = rows.get("harvest_efficiency", {"value": None})["value"]
        lines.append(
            f"{arm}: blocks {rows['blocks']['value']}"
            f", harvest efficiency {'-' if harvest is None else format(harvest, '.2f')}"
            f", failed requests {rows['errors']['value']} of {rows['requests']['value']}"
            f", client lateness p99 {rows['client_lateness_ms_p99']['value']:.1f} ms"
        )
        for figure, text in texts.items():
            noise = f"; noise {_range(rows, f'{figure}_noise')}" if arm != "alone" else ""
            lines.append(f"  {figure}  {_percent(rows[figure])} ({_range(rows, figure)}{noise}): {text}")
    return lines


def _warm_up_line(server: str, steady: bool) -> str:
    if steady:
        return f"server of {server}: steady after its warm-up"
    return f"server of {server}: NOT steady after its warm-up; its figures may hold what a cold server takes"


def _range(rows: dict[str, Any], name: str) -> str:
    low, high = rows[f"{name}_low"], rows[f"{name}_high"]
    # Of an interval with an infinite end the other end is told too.
    if low["value"] is None and low["reason"] != FAILED:
        return "no interval"
    return f"{_percent(low)} … {_percent(high)}"


def _percent(row: dict[str, Any]) -> str:
    return row["reason"] if row["value"] is None else f"{row['value']:+.1%}"
