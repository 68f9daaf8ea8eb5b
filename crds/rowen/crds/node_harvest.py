"""NodeHarvest: what a node's agent observes of its devices; one per node, named like it."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, computed_field

from rowen.crds.base import ApiModel, ReadModel, Timestamp, quantity_text
from rowen.crds.busy import MOST_TEXT, BusyCells, BusyGrid, decode
from rowen.crds.common import ObjectRef
from rowen.crds.latency_counts import RequestCounts


class NodeHarvestSpec(ApiModel):
    """How the agent collects and reports."""

    window_seconds: Annotated[int, Field(ge=10, le=86400)] = 60
    """Window over which fractions and percentiles are computed."""
    interval_seconds: Annotated[int, Field(ge=1, le=300)] = 5
    """Time between two looks at the node; what they show is reported when it matters, and every minute."""


class Interval(ReadModel):
    """A stretch of time."""

    start: float
    """Unix time, seconds."""
    end: float
    """Unix time, seconds."""


class Quantiles(ReadModel):
    """Quantiles of a latency over the window, in seconds."""

    count: int
    """Samples."""
    p50: float
    """50th percentile."""
    p90: float
    """90th percentile."""
    p95: float
    """95th percentile."""
    p99: float
    """99th percentile."""
    max: float
    """Largest."""


class OnlineTenant(ReadModel):
    """The online engine on a device."""

    pod: ObjectRef
    """Its pod."""
    service: Annotated[str, Field(max_length=253)] | None = None
    """Its OnlineService: the one that the pod's label `rowen.dev/service` names."""
    attached: bool
    """Whether the engine's plugin has attached; without it nothing is harvested."""
    in_flight: int
    """Requests in flight now, and one more for each engine process that has work."""
    ttft: Quantiles | None = None
    """Time to first token."""
    tpot: Quantiles | None = None
    """Time per output token."""
    requests: Annotated[list[RequestCounts], Field(max_length=4)] = []
    """Requests by latency, beside offline tenants and without: over ten minutes, and where there were fewer than 100
    without, those over an hour too. Told anew every half minute at most."""


class OfflineTenant(ReadModel):
    """An offline pod on a device."""

    pod: ObjectRef
    """Its pod."""
    job: Annotated[str, Field(max_length=253)] | None = None
    """Its OfflineJob, where the pod belongs to one."""
    attached: bool
    """Whether at least one of its processes is behind the gate."""
    completed: int = 0
    """Units (steps, rows) done."""
    total: int = 0
    """Units in all; 0 while unknown."""
    tokens: int = 0
    """Tokens processed by this pod so far."""
    granted_seconds: float = 0.0
    """Time for which this pod could run so far, between its first and its last token."""
    preemptions: int = 0
    """Times this pod was stopped."""
    backstops: int = 0
    """Times the kernel had to stop it with its cgroup, since it did not stop by itself."""


class Preemptions(ReadModel):
    """Preemptions of offline work on a device."""

    total: int
    """Since the agent started."""
    latency: Quantiles | None = None
    """From the online side turning busy to the last offline thread stopped, over the window."""
    per_request_max: int
    """Most preemptions that one online request has met over the window."""


class Deficit(ReadModel):
    """How long offline work would have had less memory than some amount."""

    bytes: int
    """The amount."""
    fraction: float
    """Part of the time with less."""
    mean_seconds: float
    """Mean length of a stretch with less."""


class MemoryTrace(ReadModel):
    """What was left of a device's memory for offline work, above what pods have for themselves, over the window."""

    seconds: float
    """Time that it covers; less than the window at first."""
    available_bytes: Annotated[list[int], Field(min_length=1, max_length=32)]
    """Memory that offline work could have: the time, ordered by it, in 32 equal parts, or 16, 8, 4, 2 or one where that
    says the same; the mean of each."""
    deficits: Annotated[list[Deficit], Field(max_length=8)] | None = None
    """What agents of the release before say beside it, so that their reports are taken; read by nobody. Deprecated."""
    used_bytes: int
    """In use by the online engine, mean."""
    headroom_bytes: int
    """Mapped for the online engine, in use or ahead of its need, mean."""
    reclaims: int
    """Times that memory was taken from offline work."""
    tokens_lost: int
    """Tokens that offline work has to compute again for it."""

    def mean(self, function: Callable[[float], float]) -> float:
        """Mean over the time of a function of the memory (bytes) that offline work could have.

        For a monotone function it is off by at most a 32nd of the function's range over the memory that occurred; for
        the shortfall `max(0, m - memory)`, which bends once, by at most a 128th of the range of that memory.
        """
        return sum(function(memory) for memory in self.available_bytes) / len(self.available_bytes)


class PoolOwners(ReadModel):
    """Whose a device's memory is at the moment of the report. The five parts make up the device's memory."""

    fixed_bytes: int
    """What pods on the device have for themselves: limits, or requests where they share the pool."""
    online_used_bytes: int
    """In use by the online engine, out of the pool."""
    online_ahead_bytes: int
    """Kept for the online engine ahead of its need."""
    offline_bytes: int
    """Lent to offline work."""
    free_bytes: int
    """Nobody's."""

    @property
    def lendable_bytes(self) -> int:
        """The pool itself: all but the fixed part."""
        return self.online_used_bytes + self.online_ahead_bytes + self.offline_bytes + self.free_bytes


class IdleWindow(ReadModel):
    """How idle a device was over a longer time."""

    seconds: Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
    """Time that it covers."""
    fraction: Annotated[float, Field(ge=0.0, le=1.0)]
    """Fraction of it in which offline work might run, cooldowns taken off."""


class DeviceHarvest(ReadModel):
    """A device: a GPU, or a core with a pool of memory."""

    id: Annotated[str, Field(max_length=63)]
    """Name of the device, unique on its node."""
    type: Annotated[str, Field(max_length=63)]
    """Hardware type: `cpu`, or a GPU's model; profiles are kept per type."""
    memory_bytes: int
    """Memory that its tenants share."""
    harvestable: bool
    """Whether offline work may be placed: the device is in order, and the online engine is there and attached."""
    gate_open: bool
    """Whether offline work may compute at the moment of the report."""
    idle_fraction: Annotated[float, Field(ge=0.0, le=1.0)]
    """Fraction of the window in which offline work may run, cooldowns taken off."""
    harvested_fraction: Annotated[float, Field(ge=0.0, le=1.0)]
    """Fraction of the window in which offline work did run."""
    covered_seconds: Annotated[float, Field(ge=0.0)] | None = None
    """Time that the two fractions cover: the window, and less after an engine has attached."""
    decode_gap_seconds: float
    """Gap between two engine steps of a busy engine: the largest of the last minute, single outliers left out."""
    cooldown_seconds: float
    """Idle time before offline work resumes: twice the decode gap, between 2 ms and 0.5 s."""
    idles: Annotated[list[IdleWindow], Field(max_length=4)] = []
    """The same over longer windows, an hour and a day, as far as the agent has seen them; the shortest first."""
    busy: Annotated[str, Field(max_length=MOST_TEXT, pattern="^[A-Za-z0-9+/]+={0,2}$")] | None = None
    """When the gate was closed, for alignment: a bit for each cell of `busyGrid`, the oldest in the lowest bit of the
    first byte; as base64."""
    busy_intervals: Annotated[list[Interval], Field(max_length=256)] = []
    """What agents of the release before say in place of `busy`; read for this release only."""
    preemptions: Preemptions
    """Preemptions so far."""
    memory: MemoryTrace | None = None
    """What was left of its memory for offline work; absent where memory does not change its owner."""
    pool: PoolOwners | None = None
    """Whose its memory is now; absent where memory does not change its owner."""
    online: OnlineTenant | None = None
    """The online engine on it."""
    tenants: Annotated[list[OfflineTenant], Field(max_length=16)] = []
    """Offline pods on it."""


class NodeSummary(ReadModel):
    """The node in one line; derived from its devices."""

    devices: int
    """Devices of the node."""
    harvestable: int
    """Devices on which offline work may be placed."""
    tenants: int
    """Offline pods on them."""
    preemptions: int
    """Preemptions since the agent started."""
    idle: str
    """Mean idle fraction of the harvestable devices, in percent."""
    harvested: str
    """Mean harvested fraction of the harvestable devices, in percent."""
    memory: str | None = None
    """Memory of its devices, together."""
    pool: str | None = None
    """What of it changes its owner: less what pods have for themselves; `-` where none does."""
    lent: str | None = None
    """What of that offline work has now; `-` where no memory changes its owner."""


class NodeHarvestStatus(ReadModel):
    """What the agent observes."""

    update_time: Timestamp | None = None
    """When the report was made; the node's coordination Lease tells whether the node is there."""
    backend: Literal["cpu", "nvidia"] | None = None
    """How devices are shared on this node; absent where they differ in it."""
    busy_grid: BusyGrid | None = None
    """The cells of the devices' `busy`."""
    devices: Annotated[
        list[DeviceHarvest],
        Field(
            max_length=64,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
        ),
    ] = []
    """One entry per device."""

    def busy_cells(self, device: DeviceHarvest) -> BusyCells | None:
        """When one of the devices was busy; None where it does not say so in cells. Raises `ValueError`."""
        if device.busy is None:
            return None
        if self.busy_grid is None:
            raise ValueError(f"device {device.id}: busy without busyGrid")
        try:
            return decode(device.busy, self.busy_grid.cells)
        except ValueError as error:
            raise ValueError(f"device {device.id}: busy: {error}") from None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def summary(self) -> NodeSummary:
        """The node in one line, for people."""
        offered = [device for device in self.devices if device.harvestable]
        pools = [device.pool for device in self.devices if device.pool]
        return NodeSummary(
            devices=len(self.devices),
            harvestable=len(offered),
            tenants=sum(len(device.tenants) for device in self.devices),
            preemptions=sum(device.preemptions.total for device in self.devices),
            idle=_percent([device.idle_fraction for device in offered]),
            harvested=_percent([device.harvested_fraction for device in offered]),
            memory=quantity_text(sum(device.memory_bytes for device in self.devices)),
            pool=quantity_text(sum(pool.lendable_bytes for pool in pools)) if pools else "-",
            lent=quantity_text(sum(pool.offline_bytes for pool in pools)) if pools else "-",
        )


def _percent(fractions: list[float]) -> str:
    return f"{sum(fractions) / len(fractions):.0%}" if fractions else "-"
