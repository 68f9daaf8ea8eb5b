"""Drives a scheduler pass by pass, on a clock that only moves when it is told to, against a real API server."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scheduler.stage import Clock, Stage
from scheduler.tap import Tap

from rowen.scheduler.loop import Loop
from rowen.scheduler.policy import Policy


async def see(loop: Loop) -> None:
    """Lists everything anew."""
    await loop.cluster.services.refresh()
    await loop.cluster.refresh()


class Frozen(Clock):
    """Moves only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self._begin = float(int(time.time()))

    def __call__(self) -> float:
        return self._begin + self.offset


@dataclass
class Time:
    """Stands in for the module `time`: its monotonic clock is the stage's."""

    clock: Clock

    def monotonic(self) -> float:
        return self.clock()

    def thread_time(self) -> float:
        return 0.0


class Steps:
    """A scheduler that is driven pass by pass on a clock that only moves when it is told to."""

    def __init__(self, stage: Stage, tap: Tap) -> None:
        self.stage, self.tap = stage, tap
        self.policy = Policy()
        self.loop = self.started()
        self.jobs: list[str] = []
        self.beating = True
        """Whether nodes renew their Leases; those of the last release have none, and report."""

    def started(self) -> Loop:
        """A scheduler that has just been started."""
        return Loop(self.tap.client, self.stage.namespace, self.stage.namespace, self.policy, self.stage.clock)

    async def go(self, seconds: float, *, alive: Iterable[str] = (), ahead: float = 0.0) -> None:
        """So many seconds in which the scheduler listens, and these nodes give a sign of life every two of them."""
        nodes = list(alive)
        for _ in range(round(seconds / 2)):
            self.stage.clock.offset += 2.0
            for name in nodes:
                await self.sign(name, ahead)
            await see(self.loop)
            await self.loop.step()

    async def sign(self, node: str, ahead: float = 0.0) -> None:
        """A sign of life, by a clock that is so many seconds ahead of the scheduler's."""
        self.stage.clock.offset += ahead
        if self.beating:
            await self.stage.beat(node)
        else:
            await self.stage.report(node)
        self.stage.clock.offset -= ahead

    async def job(self, name: str) -> dict[str, Any]:
        """The job's status."""
        found: dict[str, Any] = (await self.stage.get_job(name))["status"]
        return found

    async def left(self) -> list[str]:
        """The nodes that have a job, by name."""
        found = [(await self.job(name)).get("assignment", {}).get("node") for name in self.jobs]
        return sorted(filter(None, found))


async def placed(steps: Steps, nodes: list[str], *names: str, ahead: float = 0.0) -> list[str]:
    """Jobs that are placed on the nodes, each on one; the ids of their assignments."""
    for name in names:
        await steps.stage.job(name)
    steps.jobs += names
    await steps.go(4, alive=nodes, ahead=ahead)
    assert await steps.left() == sorted(nodes)
    return [(await steps.job(name))["assignment"]["id"] for name in names]


def kept(status: dict[str, Any], id_: str) -> bool:
    return status.get("assignment", {}).get("id") == id_ and "evictions" not in status
