"""What all parts have used and asked for, so that a phase's share is a difference."""

import time
from dataclasses import dataclass

from plane.components import Component
from plane.names import USERS
from plane.samples import Counts, requests_by_kind, requests_by_part
from plane.usage import usage

from rowen.cluster.bare.server import ApiServer
from rowen.kube.client import Client

_SCHEMAS = {part: f"bench-{part}" for part in USERS}
_METRICS_SECONDS = 60.0


@dataclass(frozen=True)
class Reading:
    """Since the processes began, or of a phase."""

    seconds: float
    cpu_seconds: dict[str, float]
    """By part."""
    by_part: Counts
    """Requests to the API server."""
    by_kind: Counts

    def since(self, before: "Reading") -> "Reading":
        """What has come since then."""
        cpu = {part: seconds - before.cpu_seconds[part] for part, seconds in self.cpu_seconds.items()}
        return Reading(self.seconds - before.seconds, cpu, self.by_part - before.by_part, self.by_kind - before.by_kind)

    def per_minute(self, part: str) -> float:
        """Requests of a part."""
        return 60.0 * self.by_part[part] / self.seconds


class Meter:
    """Reads them. The API server's counters begin anew with its process."""

    def __init__(self, server: ApiServer, client: Client, components: dict[str, Component], crowd: int) -> None:
        self._server, self._client, self._components, self._crowd = server, client, components, crowd

    async def read(self) -> Reading:
        """Now."""
        text = await self._client.text("/metrics", timeout_seconds=_METRICS_SECONDS)
        others = {"api_server": self._server.process.pid, "etcd": self._server.etcd.pid, "simulated": self._crowd}
        cpu = {name: component.cpu_seconds() for name, component in self._components.items()}
        cpu |= {name: usage(pid).cpu_seconds for name, pid in others.items()}
        return Reading(time.monotonic(), cpu, requests_by_part(text, _SCHEMAS), requests_by_kind(text))
