"""The live view: a screen where there is a terminal, a line now and then where there is none."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rowen.crds.harvest.device_detail import DeviceDetail
from rowen.crds.harvest.node_harvest import PoolOwners
from rowen.demo.mode import Mode
from rowen.demo.show.devices import device_line, device_table
from rowen.demo.show.world import World
from rowen.demo.traffic.replay import Outcome, Progress
from rowen.demo.verdict.memory import MIB, OWNERS, Owner, bytes_of, pool_bytes
from rowen.demo.verdict.objective import Objective, Target
from rowen.demo.verdict.statistics import answered, latency, percentile, recent, tpots, ttfts

_RECENT_SECONDS = 30.0
_PLAIN_INTERVAL = 10.0
_JOBS_TITLE = "Offline jobs"
_BAR_WIDTH = 32
# Told apart without colours, too.
_BAR: dict[Owner, tuple[str, str]] = {
    "online_used": ("█", "blue"),
    "online_ahead": ("▓", "cyan"),
    "offline": ("▒", "green"),
    "free": ("░", "dim"),
}


def milliseconds(seconds: float) -> str:
    """A latency for people; a dash where there is none."""
    return "-" if math.isnan(seconds) else f"{seconds * 1000:.0f} ms"


def owners_bar(owners: PoolOwners, width: int) -> Text:
    """The pool as so many characters, each owner's as near to its part as they allow."""
    total, drawn, before = pool_bytes(owners), Text(), 0
    for owner in OWNERS:
        until = before + bytes_of(owners, owner)
        character, style = _BAR[owner]
        cells = round(width * until / total) - round(width * before / total) if total else 0
        drawn.append(character * cells, style)
        before = until
    return drawn


def owners_text(owners: PoolOwners) -> str:
    """The pool in words."""
    used, ahead, offline, free = (f"{bytes_of(owners, owner) / MIB:.0f}" for owner in OWNERS)
    return f"service {used} (+{ahead} ahead), jobs {offline}, free {free} MiB"


def plain_line(world: World, replay: Progress, now: float) -> str:
    """One line that says how things stand."""
    overall = latency(replay.outcomes)
    last = latency(recent(replay.outcomes, now, _RECENT_SECONDS))
    elapsed = now - replay.started if replay.started else 0.0
    parts = [
        f"{elapsed:4.0f} s",
        f"requests {len(replay.outcomes)}/{replay.total} ({replay.in_flight} in flight, {overall.errors} errors)",
        f"TTFT p50/p99 {milliseconds(last.ttft_p50)}/{milliseconds(last.ttft_p99)} now, "
        f"{milliseconds(overall.ttft_p50)}/{milliseconds(overall.ttft_p99)} overall",
        f"TPOT {milliseconds(last.tpot_p50)}/{milliseconds(last.tpot_p99)} now, "
        f"{milliseconds(overall.tpot_p50)}/{milliseconds(overall.tpot_p99)} overall",
    ]
    for (node, name), record in sorted(world.devices.items()):
        if record.harvest.online is not None:
            owners = _pool(record.harvest)
            pool = f", pool: {owners_text(owners)}" if owners is not None else ""
            parts.append(f"{node}/{name}: {device_line(record)}{pool}")
    for job in sorted(world.jobs):
        result = world.job_result(job)
        parts.append(f"{job}: {result.state} {result.completed}/{result.total}")
    if world.problem:
        parts.append(f"(cluster not read: {world.problem[:80]})")
    return " | ".join(parts)


def screen(world: World, replay: Progress, objective: Objective, now: float) -> RenderableType:
    """The whole screen."""
    parts: list[RenderableType] = [
        Panel(_latency_table(replay, objective, now), title=_replay_title(replay, now), title_align="left"),
        Panel(device_table(world), title="Devices", title_align="left"),
        Panel(_job_table(world), title=_JOBS_TITLE, title_align="left"),
    ]
    pools = _pool_table(world)
    if pools.row_count:
        parts.insert(2, Panel(pools, title="Whose their pools of memory are", title_align="left"))
    if world.problem:
        parts.append(Text(f"cluster not read just now: {world.problem}", style="yellow"))
    return Group(*parts)


def _replay_title(replay: Progress, now: float) -> str:
    if not replay.started:
        return "Live traffic: not started"
    return (
        f"Live traffic: {now - replay.started:.0f} s, {len(replay.outcomes)} of {replay.total} answered, "
        f"{replay.in_flight} in flight"
    )


def bound(target: Target) -> str:
    """A target for people."""
    return f"p{target.percentile} ≤ {milliseconds(target.seconds)}"


def _latency_table(replay: Progress, objective: Objective, now: float) -> Table:
    table = Table(box=None, expand=True)
    targets = {"TTFT": objective.ttft, "TPOT": objective.tpot}
    columns = [f"{name} {part}" for name, target in targets.items() for part in ("p50", f"at p{target.percentile}")]
    for title in ("", *columns, "requests", "errors"):
        table.add_column(title, justify="left" if not title else "right")
    for title, outcomes in (
        (f"last {_RECENT_SECONDS:.0f} s", recent(replay.outcomes, now, _RECENT_SECONDS)),
        ("overall", replay.outcomes),
    ):
        table.add_row(title, *_latency_cells(outcomes, objective))
    table.add_row("SLO", "", bound(objective.ttft), "", bound(objective.tpot), style="dim")
    return table


def _latency_cells(outcomes: Sequence[Outcome], objective: Objective) -> list[Text]:
    cells = []
    for values, target in ((ttfts(outcomes), objective.ttft), (tpots(outcomes), objective.tpot)):
        found = percentile(values, target.percentile)
        style = "red" if found > target.seconds else "green"
        cells += [Text(milliseconds(percentile(values, 50))), Text(milliseconds(found), style=style)]
    errors = len(outcomes) - len(answered(outcomes))
    return [*cells, Text(str(len(outcomes))), Text(str(errors), style="red" if errors else "")]


def _pool(device: DeviceDetail) -> PoolOwners | None:
    """Whose its memory is; None too where jobs ride: the demo's engine has a fixed part of it then."""
    return device.pool if device.online is not None and device.co_serving is None else None


def _pool_table(world: World) -> Table:
    table = Table.grid(padding=(0, 2))
    for (node, name), record in sorted(world.devices.items()):
        if (owners := _pool(record.harvest)) is not None:
            table.add_row(f" {node}/{name}", owners_bar(owners, _BAR_WIDTH), owners_text(owners))
    return table


def _job_table(world: World) -> Table:
    table = Table(box=None, expand=True)
    for title in ("job", "state", "mode", "progress", "", "of solo speed: predicted", "measured"):
        table.add_column(title)
    for name, status in sorted(world.jobs.items()):
        result = world.job_result(name)
        measured = status.throughput.measured_fraction if status.throughput else None
        unit = status.progress.unit or "" if status.progress else ""
        table.add_row(
            name,
            result.state,
            (status.assignment.mode or Mode.PREEMPT.value) if status.assignment else "-",
            ProgressBar(total=max(1, result.total), completed=result.completed, width=24),
            f"{result.completed}/{result.total} {unit}",
            f"{status.assignment.predicted_fraction:.0%}" if status.assignment else "-",
            f"{measured:.0%}" if measured is not None else "-",
        )
    return table


class View(Protocol):
    """Shows how things stand, as often as it likes."""

    def refresh(self) -> None:
        """Something may have changed."""

    def __enter__(self) -> "View": ...

    def __exit__(self, *_: object) -> None: ...


class ScreenView:
    """A screen that is drawn anew."""

    def __init__(self, console: Console, render: Callable[[], RenderableType]) -> None:
        """Draws what `render` returns."""
        self._render = render
        self._live = Live(render(), console=console, auto_refresh=False)

    def refresh(self) -> None:
        """Draws now."""
        self._live.update(self._render(), refresh=True)

    def __enter__(self) -> "ScreenView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


class PlainView:
    """A line every ten seconds."""

    def __init__(self, console: Console, line: Callable[[], str], clock: Callable[[], float] = time.monotonic) -> None:
        """Prints what `line` returns."""
        self._console = console
        self._line = line
        self._clock = clock
        self._next = clock()

    def refresh(self) -> None:
        """Prints when it is time."""
        if self._clock() >= self._next:
            self._next = self._clock() + _PLAIN_INTERVAL
            self._console.print(self._line(), highlight=False, soft_wrap=True)

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *_: object) -> None:
        return


def make_view(console: Console, world: World, replay: Progress, objective: Objective) -> View:
    """A screen on a terminal, lines elsewhere."""
    if console.is_terminal:
        return ScreenView(console, lambda: screen(world, replay, objective, time.time()))
    return PlainView(console, lambda: plain_line(world, replay, time.time()))
