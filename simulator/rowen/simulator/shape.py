"""The fleet and the time that are simulated."""

from math import ceil
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rowen.crds.service.online_service import HarvestMemory

_GIB = 1 << 30
Count = Annotated[int, Field(ge=1)]


class Shape(BaseModel):
    """Nodes that are all alike, and how time is cut."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nodes: Annotated[int, Field(ge=1, le=100_000)] = 100
    devices_per_node: Annotated[int, Field(ge=1, le=64)] = 1
    services_per_node: Count = 1
    """Each has an equal part of the node's devices."""
    slots_per_device: Annotated[int, Field(ge=1, le=16)] = 2
    """Offline pods that a device takes at most."""
    memory_bytes: Count = 80 * _GIB
    """Of a device."""
    handle_bytes: Count = 2 << 20
    memory: HarvestMemory = HarvestMemory()
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 86_400.0
    step_seconds: Annotated[float, Field(ge=1, le=3600)] = 60.0
    """What is reckoned at once: headroom is decided and jobs get on once a step."""
    pass_seconds: Annotated[float, Field(ge=1, le=86_400)] = 60.0
    """From one report, and one pass of the scheduler, to the next."""
    window_seconds: Annotated[float, Field(ge=1, le=86_400)] = 60.0
    """That a report covers."""
    start_seconds: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """From a job's placement to its first token."""

    @model_validator(mode="after")
    def _divides(self) -> "Shape":
        if self.devices_per_node % self.services_per_node:
            raise ValueError("devices_per_node must be a multiple of services_per_node")
        for name, seconds in (("window_seconds", self.window_seconds), ("pass_seconds", self.pass_seconds)):
            if seconds % self.step_seconds:
                raise ValueError(f"{name} must be a multiple of step_seconds")
        return self

    @property
    def services(self) -> int:
        """Of the whole fleet."""
        return self.nodes * self.services_per_node

    @property
    def devices(self) -> int:
        """Of the whole fleet."""
        return self.nodes * self.devices_per_node

    @property
    def devices_per_service(self) -> int:
        """Over which an engine is spread."""
        return self.devices_per_node // self.services_per_node

    @property
    def steps(self) -> int:
        """That cover the time; the last may end behind it."""
        return ceil(self.seconds / self.step_seconds)

    @property
    def steps_per_pass(self) -> int:
        """From one pass to the next."""
        return round(self.pass_seconds / self.step_seconds)
