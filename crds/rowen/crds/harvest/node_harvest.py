"""NodeHarvest: what a node's agent observes of its devices; one per node, named like it."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    computed_field,
    model_validator,
)

from rowen.crds.base import ApiModel, ReadModel, Timestamp, quantity_text
from rowen.crds.harvest.busy import MOST_TEXT, BusyCells, BusyGrid, decode
from rowen.crds.harvest.co_serving import CoServing, StepFigures, TenantMode
from rowen.crds.harvest.latency_counts import RequestCounts
from rowen.crds.harvest.spatial import Spatial
from rowen.crds.text.parts import checked, unpacked
from rowen.crds.text.texts import IdleText, PodRef


class NodeHarvestSpec(ApiModel):
    """How the agent collects and reports."""

    window_seconds: Annotated[int, Field(ge=10, le=86400)] = 60
    """Window over which fractions and percentiles are computed."""
    interval_seconds: Annotated[int, Field(ge=1, le=300)] = 5
    """Time between two looks at the node; what they show is reported when it matters, and every minute."""


class Quantiles(ReadModel):
    """Quantiles of a latency over the window, in seconds, to three digits."""

    p50: float
    """50th percentile."""
    p90: float
    """90th percentile."""
    p95: float
    """95th percentile."""
    p99: float
    """99th percentile."""


class OnlineTenant(ReadModel):
    """The online engine on a device."""

    pod: PodRef
    """Its pod."""
    service: Annotated[str, Field(max_length=253)] | None = None
    """Its OnlineService: the one that the pod's label `rowen.dev/service` names."""
    attached: bool = True
    """Whether the engine's plugin has attached, and has not failed; else nothing is harvested. Absent: so it is."""
    ttft: Quantiles | None = None
    """Time to first token. This and the two below: of all the node's devices of the same type that serve the same
    service, told with the first of them."""
    tpot: Quantiles | None = None
    """Time per output token."""
    requests: Annotated[list[RequestCounts], Field(max_length=4)] = []
    """Requests by latency, beside offline tenants and without: over ten minutes, and where there were fewer than 100
    without, those over an hour too. Told anew every half minute at most."""


class OfflineTenant(ReadModel):
    """An offline pod on a device."""

    pod: PodRef
    """Its pod."""
    job: Annotated[str, Field(max_length=253)] | None = None
    """Its OfflineJob, where the pod belongs to one."""
    mode: TenantMode = "Preempt"
    """Whether it runs beside the engine, behind the gate, or inside it. Absent: behind the gate."""
    attached: bool = True
    """Whether at least one of its processes is behind the gate; of one that rides, whether it is joined with the
    engine. Absent: so it is."""
    completed: int = 0
    """Units (steps, rows) done."""
    total: int = 0
    """Units in all; 0 while unknown."""
    tokens: int = 0
    """Tokens processed by this pod so far."""
    granted_seconds: float = 0.0
    """Time for which this pod could run so far, between its first and its last token, beside requests by the share; of
    one that rides, for which it was joined with the engine."""
    preemptions: int = 0
    """Times this pod was stopped."""
    backstops: int = 0
    """Times the kernel had to stop it with its cgroup, since it did not stop by itself."""


class PoolOwners(ReadModel):
    """Whose a device's memory is at the moment of the report. The five parts make up the device's memory.

    In bytes.
    """

    fixed_bytes: Annotated[int, Field(alias="fixed")]
    """What pods on the device have for themselves: limits, or requests where they share the pool."""
    online_used_bytes: Annotated[int, Field(alias="used")]
    """In use by the online engine, out of the pool."""
    online_ahead_bytes: Annotated[int, Field(alias="ahead")]
    """Kept for the online engine ahead of its need."""
    offline_bytes: Annotated[int, Field(alias="offline")]
    """Lent to offline work."""
    free_bytes: Annotated[int, Field(alias="free")]
    """Nobody's."""

    @property
    def lendable_bytes(self) -> int:
        """The pool itself: all but the fixed part."""
        return self.online_used_bytes + self.online_ahead_bytes + self.offline_bytes + self.free_bytes


_ALIKE = ("type", "memoryBytes")
"""What a report tells once where all devices are alike in it."""


def _stored(schema: dict[str, Any]) -> None:
    """Nobody but the agent writes a device, and as a whole: so the API server keeps no account of its fields."""
    schema["required"] = [name for name in schema["required"] if name not in _ALIKE]
    schema["x-kubernetes-map-type"] = "atomic"


class DeviceHarvest(ReadModel):
    """A device: a GPU, or a core with a pool of memory."""

    model_config = ConfigDict(json_schema_extra=_stored)

    id: Annotated[str, Field(max_length=63)]
    """Name of the device, unique on its node."""
    type: Annotated[str, Field(max_length=63)]
    """Hardware type: `cpu`, or a GPU's model; profiles are kept per type. Absent: the node's."""
    memory_bytes: int
    """Memory that its tenants share. Absent: the node's."""
    harvestable: bool
    """Whether offline work may be placed: the device is in order, and the online engine is there and attached."""
    gate_open: bool
    """Whether offline work may compute at the moment of the report."""
    idle_fraction: Annotated[float, Field(ge=0.0, le=1.0)]
    """Fraction of the window in which offline work may run, cooldowns taken off; time beside requests counts by the
    share of the device that is open."""
    harvested_fraction: Annotated[float, Field(ge=0.0, le=1.0)]
    """Fraction of the window in which offline work did run, likewise."""
    covered_seconds: Annotated[float, Field(ge=0.0)] | None = None
    """Time that the two fractions cover, where that is less than the window: after an engine has attached."""
    idles: Annotated[list[IdleText], Field(max_length=4)] = []
    """The same over longer windows, an hour and a day, as far as the agent has seen them, as `0.6248/3600s`: the
    fraction, and the time that it covers; the shortest first."""
    busy: Annotated[str, Field(max_length=MOST_TEXT, pattern="^~?[A-Za-z0-9+/]*={0,2}$")] | None = None
    """When the gate was closed, or open for a share of the device alone, for alignment, in cells of `busyGrid`, as
    base64: a bit for each cell, the oldest in the lowest bit of the first byte; or, where that is shorter, after `~`
    the lengths of the stretches, the oldest first and the last left out, in turn idle and busy, each as a number of
    seven bits a byte, the lowest first, with the eighth set in all its bytes but the last."""
    preemptions: int
    """Preemptions of offline work on it since the agent started."""
    available: (
        Annotated[str, Field(max_length=88, pattern="^[A-Za-z0-9+/]+={0,2}$"), AfterValidator(checked)] | None
    ) = None
    """What was left of its memory for offline work over the window, above what pods have for themselves: the time,
    ordered by it, in 32 equal parts, or 16, 8, 4, 2 or one where that says the same; the mean of each, as part of
    65,535 of `memoryBytes` in two bytes, the lower first; as base64. Absent where memory does not change its owner."""
    pool: PoolOwners | None = None
    """Whose its memory is now; absent where memory does not change its owner."""
    online: OnlineTenant | None = None
    """The online engine on it."""
    steps: StepFigures | None = None
    """What the engine's steps were made of; absent where there were none, or it does not say."""
    co_serving: CoServing | None = None
    """What rides in the engine; absent where it takes no riders in, or is not there."""
    spatial: Spatial | None = None
    """What offline work might use of it beside requests; absent where that was nothing within the window."""
    tenants: Annotated[list[OfflineTenant], Field(max_length=24)] = []
    """Offline pods on it, behind its gate and in its engine."""

    @property
    def available_bytes(self) -> list[int]:
        """The parts of `available` in bytes; empty where memory does not change its owner.

        The mean over them of a monotone function of the memory is off by at most a 32nd of the function's range over
        the memory that occurred; for the shortfall `max(0, m - memory)`, which bends once, by at most a 128th of the
        range of that memory.
        """
        return unpacked(self.available, self.memory_bytes) if self.available else []


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
    type: Annotated[str, Field(max_length=63)] | None = None
    """Hardware type of all devices; absent where they differ."""
    memory_bytes: int | None = None
    """Memory of each device; absent where they differ."""
    busy_grid: BusyGrid | None = None
    """The cells of the devices' `busy`."""
    devices: Annotated[
        list[DeviceHarvest],
        Field(
            max_length=64,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id"],
            },
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

    def to_wire(self) -> dict[str, Any]:
        """What says no more than that it is absent is left out."""
        found = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
        devices: list[dict[str, Any]] = found.pop("devices", [])
        for name in _ALIKE:
            values = {device[name] for device in devices}
            if len(values) == 1:
                found[name] = values.pop()
                devices = [{key: value for key, value in device.items() if key != name} for device in devices]
        return {**found, "devices": devices}

    @model_validator(mode="before")
    @classmethod
    def _spread(cls, value: Any) -> Any:
        """What all devices have alike is each one's."""
        if not isinstance(value, dict) or not isinstance(value.get("devices"), list):
            return value
        alike = {name: value[name] for name in _ALIKE if name in value}
        devices = [{**alike, **device} if isinstance(device, dict) else device for device in value["devices"]]
        return {**{name: value[name] for name in value if name not in _ALIKE}, "devices": devices}

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
            preemptions=sum(device.preemptions for device in self.devices),
            idle=_percent([device.idle_fraction for device in offered]),
            harvested=_percent([device.harvested_fraction for device in offered]),
            memory=quantity_text(sum(device.memory_bytes for device in self.devices)),
            pool=quantity_text(sum(pool.lendable_bytes for pool in pools)) if pools else "-",
            lent=quantity_text(sum(pool.offline_bytes for pool in pools)) if pools else "-",
        )


def _percent(fractions: list[float]) -> str:
    return f"{sum(fractions) / len(fractions):.0%}" if fractions else "-"
