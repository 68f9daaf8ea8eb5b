"""What a container has of a device's memory: a part of its own, and what it may have of the pool."""

from dataclasses import dataclass, replace

from rowen.crds.base import quantity_bytes
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.names import POOL_BYTES_ENV
from rowen.crds.service.online_service import Engine


@dataclass(frozen=True)
class MemoryShare:
    """Bytes of one container."""

    own_bytes: int
    """Its own in any case: the request."""
    pool_bytes: int
    """What it may have of the pool at most; 0 where the pool is not asked for."""

    @property
    def request(self) -> str:
        """The container's memory request."""
        return str(self.own_bytes)

    @property
    def limit(self) -> str:
        """The container's memory limit."""
        return str(self.own_bytes + self.pool_bytes)

    @property
    def environment(self) -> list[dict[str, str]]:
        """Variables that make the process ask for its part of the pool."""
        return [{"name": POOL_BYTES_ENV, "value": str(self.pool_bytes)}] if self.pool_bytes else []


def engine_share(engine: Engine, riders_bytes: int = 0) -> MemoryShare:
    """Share of one replica; `riders_bytes`: what it has for jobs that ride in it."""
    share = _share(engine.memory, engine.memory_limit, 1)
    return replace(share, own_bytes=share.own_bytes + riders_bytes)


def job_share(spec: OfflineJobSpec) -> MemoryShare:
    """Share of the job's pod: its parts of all its devices. The API server takes a limit on one device only."""
    return _share(spec.memory, spec.memory_limit, spec.devices)


def _share(memory: str, limit: str | None, devices: int) -> MemoryShare:
    own = quantity_bytes(memory)
    return MemoryShare(own * devices, quantity_bytes(limit or memory) - own)
