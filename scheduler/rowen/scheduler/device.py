"""A device that is harvested, as its node reports it."""

from dataclasses import dataclass

from rowen.crds.busy import NEVER_BUSY, BusyCells
from rowen.scheduler.model.idle import IdleWindow

DeviceKey = tuple[str, str]
"""Node and device id."""


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

    seen_idle: float | None = None
    """The part in the report's window alone; None where that is all that `idle` goes by."""
    deviation: float = 0.0
    """Standard deviation of `idle`."""

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
        if self.online_memory is None:
            return "memory 0: the online pod's memory is not known (it declares none)"
        return ""
