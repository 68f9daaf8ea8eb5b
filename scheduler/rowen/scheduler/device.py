"""A device that is harvested, as its node reports it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from struct import Struct

from rowen.crds.harvest.busy import NEVER_BUSY, BusyCells
from rowen.scheduler.model.idle import IdleWindow
from rowen.scheduler.model.rider import Served

DeviceKey = tuple[str, str]
"""Node and device id."""
OUTLINE_PARTS = 4
"""Of an outline."""
_MEMORY_UNKNOWN = "memory 0: the online pod's memory is not known (it declares none)"
FIGURES = Struct(f"={7 + OUTLINE_PARTS}d")
"""Layout of a device's figures."""


@dataclass(frozen=True, slots=True)
class TenantView:
    """An offline pod on a device, as its node reports it."""

    namespace: str
    pod: str
    tokens: int = 0
    granted: float = 0.0
    """Seconds for which it could run so far."""
    attached: bool = True
    """Whether a process of it waits on the gate: a pod whose image is still pulled holds its device too."""


@dataclass(frozen=True, slots=True)
class EngineView:
    """The engine of a device, of a service whose jobs ride."""

    served: Served
    seats: int = 0
    """Jobs that it takes in at once; 0 while it takes in none."""
    ended: str = ""
    """Why nothing rides in it until it is started anew; empty while jobs can."""
    ridden: bool = False
    """Whether jobs computed in it within the report's window, which takes of its device's idle time."""

    @property
    def takes(self) -> bool:
        """Whether it takes jobs in."""
        return self.seats > 0 and not self.ended


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device, as its node reports it."""

    node: str
    id: str
    type: str
    memory: int
    """Bytes that its tenants share."""
    idle: float
    """Part of the time in which offline work may run, as far as one can foresee it (`model.prediction.foreseen`)."""
    busy: BusyCells | None = NEVER_BUSY
    """When it was busy within the window, the devices of a node have one grid; None: not known, so no lockstep."""
    idles: tuple[IdleWindow, ...] = ()
    """The part over longer windows than the report's, as far as known."""
    available: tuple[int, ...] = ()
    """Bytes of the pool that offline work could have, over the window: ascending, each for an equal part of the time.

    Empty where memory does not change its owner."""
    online_memory: int | None = 0
    """Bytes that the online pod may have at most, as no job's own memory is taken back for it; None: not known."""
    service: str = ""
    """Namespace and name of the engine's OnlineService, for people; empty where it has none."""
    attached: bool = True
    """Whether the online engine is there and attached."""
    refusal: str = ""
    """Why the owner does not offer it; empty when it is offered."""
    restraint: str = ""
    """Why it takes one job at a time; empty when it takes as many as it has slots."""
    tenants: tuple[TenantView, ...] = ()
    engine: EngineView | None = None
    """Where its service lets jobs ride; None where jobs only run beside the engine."""
    awaited: str = ""
    """Why newcomers wait for an engine in which jobs may ride; empty where they need not."""
    shares: bool = False
    """Whether its service lets jobs that run beside the engine go on beside requests, on a share of the device."""

    seen_idle: float | None = None
    """The part in the report's window alone; None where that is all that `idle` goes by."""
    deviation: float = 0.0
    """Standard deviation of `idle`."""

    def pack(self) -> bytes:
        """What a search over all devices looks at: `FIGURES`, numbers in the machine's order.

        Idle time, its deviation, bytes, and those of them beside what the online pod may have (`room`). Then as 0 or 1
        whether that is known, and whether the device is open; how many numbers tell of its memory over time, and the
        outline of these: the most bytes that it lent in each of `OUTLINE_PARTS` equal parts of the time.
        """
        known, parts = self.online_memory is not None, len(self.available)
        own = self.idle, self.deviation, self.memory, self.room, known, not self.closed, parts
        return FIGURES.pack(*own, *_outline_of(parts)(self.available))

    @property
    def key(self) -> DeviceKey:
        """Node and id."""
        return self.node, self.id

    @property
    def room(self) -> int:
        """Bytes beside all that the online pod may have: what jobs have for themselves at most, below 0 for none.

        0 where it is not known what the online pod may have.
        """
        return 0 if self.online_memory is None else self.memory - self.online_memory

    @property
    def closed(self) -> str:
        """Why nothing is placed on it, whatever its node; empty when it is open."""
        if self.refusal:
            return self.refusal
        if not self.attached:
            return "idle 0.00: no online engine attached, so its gate is closed"
        # A job that got a place beside the engine meanwhile would keep it, and keep all riders out.
        if self.awaited:
            return self.awaited
        return "" if self.online_memory is not None else _MEMORY_UNKNOWN


@cache
def _outline_of(count: int) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """Takes the last of each part out of so many numbers, ascending; the last of all where they do not part evenly.

    0 where there are none.
    """
    if not count:
        return lambda _: (0,) * OUTLINE_PARTS
    step = count // OUTLINE_PARTS
    even = count % OUTLINE_PARTS == 0
    return itemgetter(*(range(step - 1, count, step) if even else (count - 1,) * OUTLINE_PARTS))
