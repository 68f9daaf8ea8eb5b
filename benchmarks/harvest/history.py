"""What the engine used while it was alone with a trace: the hour that StaticMem and Rowen's policy have behind them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from colocation.measure import replayed
from harvest.arms import POLICY_SECONDS
from harvest.load import SPEED, Memory, Stretch, requests_of
from harvest.node import HarvestNode, Seen

from rowen.demo.show.report import in_flight_spans
from rowen.demo.traffic.excerpt import TraceRow
from rowen.demo.traffic.scaling import Request, Scaling
from rowen.demo.verdict.statistics import clip, covered

HISTORY_SECONDS = 3600.0
"""Of the trace, before what is replayed; as far as the excerpt has them."""


@dataclass(frozen=True)
class Load:
    """The requests of a stretch, and what came before them."""

    stretch: Stretch
    requests: tuple[Request, ...]
    static_part: int
    """Handles that were free at any moment of the hour before: what StaticMem gives to offline work."""
    uses: Sequence[int]
    """Handles that the engine used in that hour, as `History.before`."""


@dataclass(frozen=True)
class History:
    """The engine alone with a trace's first seconds."""

    use: tuple[tuple[float, int], ...]
    """Seconds of the trace, in order, and handles that the engine used or wanted from then on."""
    busy: float
    """Part of the time with a request in flight, as the client saw it."""
    peak: int

    def before(self, moment: float) -> list[int]:
        """Most handles used in each period of the policy, of the hour before the moment."""
        begin = max(0.0, moment - HISTORY_SECONDS)
        found = [0] * int((moment - begin) / POLICY_SECONDS)
        last = 0
        rows = iter((*self.use, (float("inf"), 0)))
        at, handles = next(rows)
        for number in range(len(found)):
            found[number] = last
            while at < begin + (number + 1) * POLICY_SECONDS:
                found[number] = max(found[number], handles)
                last = handles
                at, handles = next(rows)
        return found


def recorded(node: HarvestNode, requests: Sequence[Request], seconds: float) -> History:
    """Replays so many seconds of the trace; the engine has the device and its memory to itself."""
    node.seen = Seen()
    started, monotonic = time.time(), time.monotonic()
    outcomes = replayed(node.url, requests, seconds / SPEED)
    ended = time.time()
    use = tuple(((at - monotonic) * SPEED, handles) for at, handles in node.seen.engine_use)
    busy = covered(clip(in_flight_spans(outcomes), started, ended)) / (ended - started)
    return History(use, busy, node.seen.engine_peak)


def make_load(rows: Sequence[TraceRow], rules: Scaling, stretch: Stretch, history: History, memory: Memory) -> Load:
    """The requests of a stretch. Raises `ValueError` without any."""
    requests = requests_of(rows, rules, stretch.start, stretch.seconds)
    if not requests:
        raise ValueError(f"no requests in {stretch}")
    uses = history.before(stretch.start)
    static = max(0, memory.handles - max(uses, default=0))
    return Load(stretch, tuple(requests), static, uses)
