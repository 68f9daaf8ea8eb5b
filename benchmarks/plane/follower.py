"""What becomes of the jobs, as a watch of them tells."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from plane.cluster import each
from plane.jobs import job, job_name

from rowen.crds.common import is_true
from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.kube.client import Client
from rowen.kube.errors import RefusedError
from rowen.kube.informer import Informer
from rowen.kube.kinds import OFFLINE_JOBS
from rowen.kube.objects import CONFLICT, create

_LOOK_SECONDS = 0.1
_TELL_SECONDS = 10.0


@dataclass(frozen=True)
class Job:
    """A job as far as it is followed."""

    name: str
    assignment: str | None
    """Its id."""
    running: bool
    finished: bool


def followed(raw: dict[str, Any]) -> Job:
    """Reads an OfflineJob."""
    status = OfflineJobStatus.from_wire(raw.get("status") or {})
    assignment = status.assignment.id if status.assignment else None
    running, finished = (is_true(status.conditions, name) for name in ("Running", "Finished"))
    return Job(raw["metadata"]["name"], assignment, running, finished)


@dataclass
class Times:
    """When, by the monotonic clock, something was first so; by job."""

    created: dict[str, float] = field(default_factory=dict)
    """Just before the request that made it."""
    placed: dict[str, float] = field(default_factory=dict)
    finished: dict[str, float] = field(default_factory=dict)

    def waits(self, names: Iterable[str]) -> list[float]:
        """Seconds from creation to the assignment, of those that have one."""
        return [self.placed[name] - self.created[name] for name in names if name in self.placed]


class Follower:
    """Makes jobs and follows them."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client, self._seed = client, seed
        self._informer = Informer(client, OFFLINE_JOBS, followed, self._changed)
        self.times = Times()

    async def run(self) -> None:
        """Follows until it is cancelled."""
        await self._informer.run()

    def jobs(self) -> dict[str, Job]:
        """All jobs, by name."""
        return {found.name: found for found in self._informer.values()}

    async def make(self, numbers: range, *, held: bool) -> list[str]:
        """Makes these jobs, as fast as it goes; returns their names."""
        await each(numbers, lambda number: self.make_one(number, held=held))
        return [job_name(number, held=held) for number in numbers]

    async def make_one(self, number: int, *, held: bool) -> str:
        """Makes a job; returns its name. One that is there already is no error: the answer may have been lost."""
        name = job_name(number, held=held)
        self.times.created[name] = time.monotonic()
        try:
            await create(self._client, OFFLINE_JOBS, job(self._seed, number, held=held), manager="bench")
        except RefusedError as error:
            if error.status != CONFLICT:
                raise
        return name

    async def wait(self, holds: Callable[[], int], wanted: int, most_seconds: float, say: Callable[[str], None]) -> int:
        """Waits until the count is the wanted one, or the time is over; returns the count."""
        deadline, told = time.monotonic() + most_seconds, time.monotonic()
        while (count := holds()) < wanted and time.monotonic() < deadline:
            if time.monotonic() - told > _TELL_SECONDS:
                say(f"{count} of {wanted}")
                told = time.monotonic()
            await asyncio.sleep(_LOOK_SECONDS)
        return count

    def _changed(self, _: Job | None, now: Job | None) -> None:
        if now is None:
            return
        if now.assignment is not None:
            self.times.placed.setdefault(now.name, time.monotonic())
        if now.finished:
            self.times.finished.setdefault(now.name, time.monotonic())
