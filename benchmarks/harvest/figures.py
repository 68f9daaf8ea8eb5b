"""What the turns of all arms say."""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from harvest.turns import Turn
from reporting.blocks import Increase, increase
from reporting.figures import count_figures, latency_figures
from reporting.report import Figures, Missing

ROWENS = {"rowen": "", "rowen_60": "_at_60"}
"""Arm → what its figures end in."""
BARS = {"offline_vs_static_min": 1.09, "offline_vs_static_max": 1.5, "offline_vs_no_reclaim": 0.95}
"""Least ratio of Rowen's offline throughput to another arm's."""
OTHERS = {"static": "static", "never_reclaimed": "no_reclaim"}
"""Arm → its name in figures."""
ENDLESS = "the other arm did nothing"


def speed(turn: Turn) -> float:
    """Offline tokens per second of a turn."""
    return (turn.repeat.tokens or 0) / turn.repeat.seconds


def granted_speed(turn: Turn) -> float:
    """Offline tokens per second in which the gate was open and a worker was ready; NaN without any."""
    return (turn.repeat.tokens or 0) / turn.granted_seconds if turn.granted_seconds else math.nan


def versus(turns: Sequence[Turn], base: str, arm: str = "rowen") -> Increase:
    """How much more Rowen's worker does than another arm's, block by block, as a fraction."""
    bases = {turn.repeat.block: speed(turn) for turn in turns if turn.repeat.arm == base}
    own = [turn for turn in turns if turn.repeat.arm == arm]
    pairs = [(speed(turn), bases[turn.repeat.block]) for turn in own if turn.repeat.block in bases]
    # Beside a worker that did nothing any work is infinitely more.
    return increase([(figure, found) if found > 0 else (math.inf, 1.0) for figure, found in pairs if figure or found])


def ratio_figures(name: str, found: Increase) -> Figures:
    """As a ratio, with its interval."""
    missing = Missing(found.missing)
    interval = found.interval
    return {
        name: (missing if found.estimate is None else _finite(1 + found.estimate), "ratio"),
        f"{name}_low": (_finite(1 + interval.low) if interval else missing, "ratio"),
        f"{name}_high": (_finite(1 + interval.high) if interval else missing, "ratio"),
        f"{name}_blocks": (float(found.blocks), "blocks"),
    }


def _finite(value: float) -> float | Missing:
    return value if math.isfinite(value) else Missing(ENDLESS)


def versus_figures(turns: Sequence[Turn], arm: str = "rowen") -> Figures:
    """Rowen over the other two: by stretch, the least and the most of them, and over all."""
    end_of = ROWENS[arm]
    figures: dict[str, tuple[float | Missing, str]] = {}
    static = []
    for stretch in dict.fromkeys(turn.stretch for turn in turns):
        own = [turn for turn in turns if turn.stretch == stretch]
        for base, name in OTHERS.items():
            found = versus(own, base, arm)
            figures |= ratio_figures(f"offline_vs_{name}_{stretch}{end_of}", found)
            if base == "static" and found.estimate is not None:
                static.append(found)
    static.sort(key=lambda found: found.estimate or 0.0)
    for end, chosen in (("min", static[:1]), ("max", static[-1:])):
        figures |= ratio_figures(f"offline_vs_static_{end}{end_of}", chosen[0] if chosen else increase([]))
    return figures | ratio_figures(f"offline_vs_no_reclaim{end_of}", versus(turns, "never_reclaimed", arm))


def offline_figures(turns: Sequence[Turn], arm: str, solo: float) -> Figures:
    """The worker's throughput and what it cost; nothing for an arm without one. `solo`: tokens per second."""
    own = [turn for turn in turns if turn.repeat.arm == arm]
    if any(turn.repeat.tokens is None for turn in own):
        return {}
    seconds = sum(turn.repeat.seconds for turn in own)
    tokens = sum(turn.repeat.tokens or 0 for turn in own)
    granted = [value for turn in own if not math.isnan(value := granted_speed(turn))]
    per_granted: float | Missing = median(granted) if granted else Missing("no worker was ready with the gate open")
    return {
        "offline_tokens_per_second": (tokens / seconds, "tokens/s"),
        "offline_part_of_solo": (tokens / seconds / solo, "fraction"),
        "offline_tokens_per_granted_second": (per_granted, "tokens/s"),
        "offline_part_of_solo_when_granted": (
            per_granted if isinstance(per_granted, Missing) else per_granted / solo,
            "fraction",
        ),
        "gate_open_fraction": (sum(turn.repeat.gate_open for turn in own) / seconds, "fraction"),
        "worker_handles_mean": (
            sum(turn.worker_handles * turn.repeat.seconds for turn in own) / seconds,
            "handles",
        ),
        "reclaims": (float(sum(turn.reclaims for turn in own)), "1"),
        "handles_reclaimed": (float(sum(turn.handles_reclaimed for turn in own)), "handles"),
        "tokens_lost": (float(sum(turn.tokens_lost for turn in own)), "tokens"),
        "tokens_lost_fraction": (
            sum(turn.tokens_lost for turn in own) / tokens if tokens else Missing("no tokens"),
            "fraction",
        ),
        "kills": (float(sum(turn.kills for turn in own)), "1"),
        "worker_down_fraction": (sum(turn.down_seconds for turn in own) / seconds, "fraction"),
    }


def arm_figures(turns: Sequence[Turn], arm: str, solo: float) -> Figures:
    """All figures of an arm."""
    repeats = [turn.repeat for turn in turns]
    own = [turn for turn in turns if turn.repeat.arm == arm]
    return {
        **latency_figures(repeats, arm),
        **offline_figures(turns, arm, solo),
        **count_figures(repeats, arm),
        "engine_peak_handles": (float(max(turn.engine_peak for turn in own)), "handles"),
        "idle_fraction": (
            sum(turn.repeat.idle for turn in own) / sum(turn.repeat.seconds for turn in own),
            "fraction",
        ),
        "preemptions_per_request_max": (
            float(max((count for turn in own for count in turn.repeat.per_request), default=0)),
            "closes",
        ),
    }


def ratio_verdict(low: float | None, high: float | None, bar: float) -> str:
    """Whether a ratio keeps to the least that it shall be, as far as its interval can tell."""
    if low is None or high is None:
        return "cannot tell (no interval)"
    if low >= bar:
        return "keeps the bar"
    return "below the bar" if high < bar else "cannot tell (interval on both sides of the bar)"


def offline_lines(obj: Mapping[str, Any]) -> list[str]:
    """For people: what each arm's worker did, and how Rowen's compares."""
    lines = ["offline work, as a part of what the worker does alone with all the memory"]
    for arm, rows in {"rowen": obj["figures"], **obj["baselines"]}.items():
        if "offline_part_of_solo" not in rows:
            continue
        granted = rows["offline_part_of_solo_when_granted"]["value"]
        lines.append(
            f"  {arm}: {rows['offline_part_of_solo']['value']:.2f}"
            f", while it had the device {'-' if granted is None else format(granted, '.2f')}"
            f", handles {rows['worker_handles_mean']['value']:.1f}"
            f", reclaims {rows['reclaims']['value']:.0f}"
            f", tokens lost {rows['tokens_lost']['value']:.0f}"
            f", kills {rows['kills']['value']:.0f}"
        )
    for name, bar in [(f"{name}{end}", bar) for end in ROWENS.values() for name, bar in BARS.items()]:
        ratio, low, high = (obj["figures"][f"{name}{end}"]["value"] for end in ("", "_low", "_high"))
        said = "no value" if ratio is None else f"{ratio:.2f}"
        between = "no interval" if low is None or high is None else f"{low:.2f} … {high:.2f}"
        lines.append(f"{name}: {said} ({between}), bar {bar}: {ratio_verdict(low, high, bar)}")
    return lines
