"""The picture of a run: request bursts, who holds the device or rides in it, whose its memory is, TTFT and SLO."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowen.demo.traffic.replay import Outcome
from rowen.demo.verdict.memory import OWNERS, Owner, PoolReading, Stack, stack, taken, within
from rowen.demo.verdict.objective import Target
from rowen.demo.verdict.statistics import Span, clip, covered, percentile, ttfts
from rowen.demo.verdict.timeline import Holder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS: dict[Holder, str] = {"online": "#1f77b4", "offline": "#2ca02c", "none": "#e3e3e3"}
_LABELS: dict[Holder, str] = {"online": "online serving", "offline": "offline jobs", "none": "nobody"}
_RIDERS = "jobs, in its engine,\nby the second"
_OWNER_COLORS: dict[Owner, str] = {
    "online_used": _COLORS["online"],
    "online_ahead": "#aec7e8",
    "offline": _COLORS["offline"],
    "free": _COLORS["none"],
}
_OWNER_LABELS: dict[Owner, str] = {
    "online_used": "service, in use",
    "online_ahead": "service, kept ahead",
    "offline": "offline jobs",
    "free": "nobody",
}
_SLO_COLOR = "#d62728"
_BESIDE_TITLE: dict[str, Any] = {
    "loc": "lower right", "bbox_to_anchor": (1, 1), "frameon": False, "fontsize": 9, "borderaxespad": 0.1,
}  # fmt: skip
"""Where a panel's legend is."""
_TICKS_MS = [step * 10**power for power in range(6) for step in (1, 2, 5)]


@dataclass(frozen=True)
class Drawing:
    """What is drawn. Times are Unix times in seconds."""

    start: float
    end: float
    device: str
    """Name of the device, for the row's title."""
    outcomes: Sequence[Outcome]
    held: Sequence[tuple[Span, Holder]]
    """Who held the device, without gaps."""
    ttft: Target
    """The objective of the time to first token."""
    pool: Sequence[PoolReading]
    """Whose the device's memory was; empty where it does not change its owner."""
    riding: Sequence[Span] | None
    """When jobs rode in its engine; None where that takes none in."""
    source: str
    """Where the traffic comes from."""


def in_flight_steps(outcomes: Sequence[Outcome], start: float) -> tuple[list[float], list[int]]:
    """Requests in flight over time: seconds from `start` and the count from then on."""
    edges = sorted([(outcome.arrival, 1) for outcome in outcomes] + [(outcome.end, -1) for outcome in outcomes])
    times, counts, count = [0.0], [0], 0
    for moment, change in edges:
        count += change
        times.append(moment - start)
        counts.append(count)
    return times, counts


def shares(held: Sequence[tuple[Span, Holder]]) -> dict[Holder, float]:
    """Fraction of the time per holder."""
    seconds: dict[Holder, float] = {"online": 0.0, "offline": 0.0, "none": 0.0}
    for (start, end), holder in held:
        seconds[holder] += end - start
    total = sum(seconds.values())
    return {holder: value / total if total else 0.0 for holder, value in seconds.items()}


def draw(drawing: Drawing, path: Path) -> None:
    """Writes the picture as PNG. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    compose(drawing).savefig(path)


def compose(drawing: Drawing) -> "Figure":
    """The picture, of one panel above another."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    memory = stack(drawing.pool, drawing.start, drawing.end)
    panels = {_draw_bursts: 3.0, _draw_holders: 1.5, _draw_ttft: 3.0}
    if memory.seconds:
        panels = {_draw_bursts: 2.6, _draw_holders: 1.4, partial(_draw_memory, memory): 3.0, _draw_ttft: 2.6}
    height = 9.4 if memory.seconds else 7.2
    figure = Figure(figsize=(13, height), dpi=110, layout=ConstrainedLayoutEngine(rect=(0, 0.02, 1, 0.98)))
    FigureCanvasAgg(figure)
    rows = figure.subplots(len(panels), 1, sharex=True, height_ratios=list(panels.values()))
    for axes, draw_panel in zip(rows, panels, strict=True):
        draw_panel(axes, drawing)
    rows[-1].set_xlim(0, drawing.end - drawing.start)
    rows[-1].set_xlabel("seconds of the replay")
    figure.suptitle("Rowen: online serving and offline jobs on one device", fontsize=15, fontweight="bold")
    figure.text(0.995, 0.004, f"traffic: {drawing.source}", ha="right", va="bottom", fontsize=7, color="#666666")
    return figure


def _draw_bursts(axes, drawing: Drawing) -> None:  # type: ignore[no-untyped-def]
    times, counts = in_flight_steps(drawing.outcomes, drawing.start)
    axes.fill_between(times, counts, step="post", color=_COLORS["online"], alpha=0.35, linewidth=0)
    axes.step(times, counts, where="post", color=_COLORS["online"], linewidth=0.8)
    axes.set_ylabel("requests in flight")
    axes.set_ylim(bottom=0)
    axes.set_title("Request bursts", loc="left", fontsize=11)
    axes.grid(axis="y", alpha=0.3)


@dataclass(frozen=True)
class Row:
    """One of those who have the device."""

    label: str
    color: str
    spans: Sequence[Span]
    share: float
    """Fraction of the time."""


def rows_of(drawing: Drawing) -> list[Row]:
    """Who had the device, from the lowest row up. Who rides does so beside the requests, or in place of them."""
    part, seconds = shares(drawing.held), drawing.end - drawing.start
    rows = {
        holder: Row(_LABELS[holder], _COLORS[holder], [span for span, who in drawing.held if who == holder], share)
        for holder, share in part.items()
    }
    if drawing.riding is None:
        return [rows["offline"], rows["online"]]
    spans = clip(drawing.riding, drawing.start, drawing.end)
    riders = Row(_RIDERS, _COLORS["offline"], spans, covered(spans) / seconds if seconds else 0.0)
    return [row for row in (rows["offline"], riders) if row.spans] + [rows["online"]]


def _draw_holders(axes, drawing: Drawing) -> None:  # type: ignore[no-untyped-def]
    rows = rows_of(drawing)
    for at, row in enumerate(rows):
        spans = [(start - drawing.start, end - start) for start, end in row.spans]
        axes.broken_barh([(0, drawing.end - drawing.start)], (at + 0.1, 0.8), facecolors=_COLORS["none"])
        axes.broken_barh(spans, (at + 0.1, 0.8), facecolors=row.color, linewidth=0)
    ticks = [at + 0.5 for at in range(len(rows))]
    axes.set_yticks(ticks, [f"{row.label}\n{row.share:.0%} of the time" for row in rows])
    axes.set_ylim(0, len(rows))
    title = "Who holds the device" if drawing.riding is None else "For whom the device computes"
    axes.set_title(f"{title} ({drawing.device})", loc="left", fontsize=11)
    axes.tick_params(axis="y", length=0)


def memory_top(memory: Stack) -> float:
    """Upper end of the axis, in MiB: memory that nobody has is cut off where it is by far the most."""
    whole = [sum(parts) for parts in zip(*memory.mebibytes.values(), strict=True)]
    owned = [all_of - free for all_of, free in zip(whole, memory.mebibytes["free"], strict=True)]
    # Not a number is less than nothing here.
    most = max((value for value in whole if value > 0), default=1.0)
    return min(most, max(1.0, 1.2 * max((value for value in owned if value > 0), default=most)))


def _draw_memory(memory: Stack, axes, drawing: Drawing) -> None:  # type: ignore[no-untyped-def]
    axes.stackplot(
        memory.seconds,
        [memory.mebibytes[owner] for owner in OWNERS],
        colors=[_OWNER_COLORS[owner] for owner in OWNERS],
        labels=[_OWNER_LABELS[owner] for owner in OWNERS],
        step="post",
        linewidth=0,
    )
    top = memory_top(memory)
    moments = [at - drawing.start for at, _ in taken(within(drawing.pool, drawing.start, drawing.end))]
    (marks,) = axes.plot(moments, [top] * len(moments), "v", color="black", markersize=5, clip_on=False)
    marks.set_label("taken back")
    # Without a mark it lies in the picture's corner, and the layout would keep all between free.
    marks.set_in_layout(False)
    axes.set_ylim(0, top)
    axes.set_ylabel("MiB")
    axes.set_title("Whose the device's pool of memory is", loc="left", fontsize=11)
    axes.legend(ncols=5, **_BESIDE_TITLE)


def _draw_ttft(axes, drawing: Drawing) -> None:  # type: ignore[no-untyped-def]
    answered = [(outcome.arrival, outcome.ttft) for outcome in drawing.outcomes if outcome.ttft is not None]
    values = [value * 1000 for _, value in answered]
    slo = drawing.ttft.seconds * 1000
    colors = [_SLO_COLOR if value > slo else _COLORS["online"] for value in values]
    axes.scatter([arrival - drawing.start for arrival, _ in answered], values, s=11, c=colors, linewidths=0)
    told = f"SLO: p{drawing.ttft.percentile} ≤ {slo:.0f} ms"
    line = axes.axhline(slo, color=_SLO_COLOR, linestyle="--", linewidth=1.2, label=told)
    failed = [outcome.arrival - drawing.start for outcome in drawing.outcomes if outcome.error is not None]
    axes.scatter(failed, [slo] * len(failed), marker="x", color=_SLO_COLOR)
    axes.set_ylabel("TTFT (ms)")
    bottom, top = min([*values, slo]) / 1.3, max([*values, slo]) * 1.6
    axes.set_yscale("log")
    axes.set_ylim(bottom, top)
    axes.set_yticks([tick for tick in _TICKS_MS if bottom <= tick <= top])
    axes.yaxis.set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    # As in the report: of requests that were answered in full.
    whole = [value * 1000 for value in ttfts(drawing.outcomes)]
    axes.set_title(
        f"Time to first token per request: p50 {percentile(whole, 50):.0f} ms, p99 {percentile(whole, 99):.0f} ms",
        loc="left",
        fontsize=11,
    )
    # Beside the title: within the panel it would lie below the points.
    axes.legend(handles=[line], **_BESIDE_TITLE)
    axes.grid(axis="y", alpha=0.3)
