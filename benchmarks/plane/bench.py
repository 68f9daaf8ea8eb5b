"""The phases, one after the other, on one cluster."""

import asyncio
import contextlib
import json
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from plane.components import Component, decided, reconciled
from plane.follower import Follower, followed
from plane.kubelets import PODS
from plane.meter import Meter, Reading
from plane.names import HELD, NAMESPACE
from plane.samples import samples
from plane.sizes import PROBES, Sizes
from reporting.report import Missing
from rig.child import ask

from rowen.cluster.bare.server import ApiServer
from rowen.kube.client import Client
from rowen.kube.errors import KubeError
from rowen.kube.kinds import OFFLINE_JOBS, ONLINE_SERVICES
from rowen.kube.objects import get, list_all
from rowen.kube.resource import Resource
from rowen.operator.jobs.pod import pod_name

_LOOK_SECONDS = 0.2

Say = Callable[[str], None]


@dataclass
class Outage:
    """What the API server's absence did. Times in seconds."""

    ready_seconds: float
    """The new process's start, until it answers."""
    placed_seconds: float | Missing
    """From then until new jobs had assignments."""
    pods_seconds: float | Missing
    """From then until the operator had made their pods."""
    assignments: int
    revoked: int
    """Of them."""
    pods: int
    lost: int
    """Of them."""


@dataclass
class Burst:
    """What came of the jobs that were made at once."""

    reading: Reading
    late_seconds: float
    waits: list[float]
    seconds: float
    """From the first creation to the last assignment."""
    creating_seconds: float
    finished: int
    crowd: dict[str, Any]


@dataclass
class Found:
    """What the phases have found."""

    idle: Reading
    idle_late_seconds: float
    steady_waits: list[float]
    running: int
    """Held jobs that ran before the restarts."""
    restarts: dict[str, float | Missing]
    resources: int
    """Jobs and services that were there then."""
    outage: Outage
    burst: Burst
    rest_rss: dict[str, int] = field(default_factory=dict)
    peak_rss: dict[str, int] = field(default_factory=dict)


class Bench:
    """A run on a furnished cluster; operator and scheduler are not started yet."""

    def __init__(
        self, server: ApiServer, client: Client, components: dict[str, Component],
        crowd: "subprocess.Popen[str]", sizes: Sizes, seed: int, say: Say,
    ) -> None:  # fmt: skip
        self._server, self._client, self._components, self._crowd = server, client, components, crowd
        self._sizes, self._say = sizes, say
        self._follower = Follower(client, seed)
        self._meter = Meter(server, client, components, crowd.pid)

    async def run(self) -> Found:
        """All phases. Raises `RuntimeError` where a part ends by itself, `TimeoutError` where nothing begins."""
        async with self._following():
            await self._begin()
            idle, late = await self._idle()
            steady = await self._steady()
            running = await self._fill()
            resources = await self._resources()
            restarts = await self._restart(resources)
            outage = await self._outage()
            await self._release()
            found = Found(idle, late, steady, running, restarts, resources, outage, await self._burst())
            await asyncio.sleep(5.0)
            for name, component in self._components.items():
                found.rest_rss[name] = component.usage().rss_bytes
                found.peak_rss[name] = component.peak_rss_bytes
            return found

    @contextlib.asynccontextmanager
    async def _following(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._follower.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _begin(self) -> None:
        for component in self._components.values():
            component.start()
        deadline = time.monotonic() + self._sizes.other_limit_seconds
        while (heard := await self._heard()) < self._sizes.nodes:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the scheduler has heard of {heard} of {self._sizes.nodes} nodes")
            for component in self._components.values():
                component.usage()
            await asyncio.sleep(1.0)
        self._say(f"{self._sizes.nodes} nodes are heard")

    async def _heard(self) -> int:
        text = await self._components["scheduler"].metrics()
        return sum(1 for _ in samples(text, "rowen_node_heartbeat_age_seconds"))

    async def _idle(self) -> tuple[Reading, float]:
        await self._asked("tally")
        before = await self._meter.read()
        await asyncio.sleep(self._sizes.idle_seconds)
        found = (await self._meter.read()).since(before)
        self._say(f"idle: {found.per_minute('agents') / self._sizes.nodes:.1f} requests a node and minute")
        return found, (await self._asked("tally"))["late_seconds_p99"]

    async def _asked(self, line: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await asyncio.to_thread(ask, self._crowd, line))
        return answer

    async def _steady(self) -> list[float]:
        names = []
        for number in range(self._sizes.steady):
            names.append(await self._follower.make_one(number, held=True))
            await asyncio.sleep(1.0 / self._sizes.steady_per_second)
        await self._placed(names, self._sizes.other_limit_seconds)
        self._say(f"steady: {len(names)} jobs, one after the other")
        return self._follower.times.waits(names)

    async def _fill(self) -> int:
        """How many of the held jobs run."""
        names = await self._follower.make(range(self._sizes.steady, self._sizes.held), held=True)
        await self._placed(names, self._sizes.other_limit_seconds)
        return await self._follower.wait(
            lambda: sum(job.running for job in self._follower.jobs().values()),
            self._sizes.held, self._sizes.other_limit_seconds, lambda text: self._say(f"running: {text}"),
        )  # fmt: skip

    async def _placed(self, names: list[str], most_seconds: float) -> int:
        times = self._follower.times
        return await self._follower.wait(
            lambda: sum(name in times.placed for name in names),
            len(names), most_seconds, lambda text: self._say(f"placed: {text}"),
        )  # fmt: skip

    async def _restart(self, resources: int) -> dict[str, float | Missing]:
        most, found = self._sizes.other_limit_seconds, dict[str, float | Missing]()
        dones = {"operator": lambda text: reconciled(text, resources), "scheduler": decided}
        for name, done in dones.items():
            try:
                found[name] = await self._components[name].restart(done, most)
            except TimeoutError as error:
                found[name] = Missing(str(error))
            self._say(f"restart of the {name} with {resources} resources: {found[name]}")
        return found

    async def _resources(self) -> int:
        """Objects that the operator reconciles when it is started again, as the API server has them."""
        return sum([len(await list_all(self._client, kind)) for kind in (OFFLINE_JOBS, ONLINE_SERVICES)])

    async def _outage(self) -> Outage:
        before = {job.name: job.assignment for job in self._follower.jobs().values() if job.assignment}
        pods = await self._pods()
        self._say(f"the API server is away for {self._sizes.outage_seconds:.0f} s")
        self._server.kill()
        await asyncio.sleep(self._sizes.outage_seconds)
        began = time.monotonic()
        self._server.start_again()
        await asyncio.to_thread(self._server.await_ready)
        ready = time.monotonic()
        numbers = range(self._sizes.jobs, self._sizes.jobs + PROBES)
        names = await self._insist(lambda: self._follower.make(numbers, held=True))
        placed = await self._seconds_until(OFFLINE_JOBS, names, ready, lambda raw: followed(raw).assignment is not None)
        made = await self._seconds_until(PODS, [pod_name(name, 1) for name in names], ready, lambda _: True)
        await asyncio.sleep(self._sizes.settle_seconds)
        stored = await list_all(self._client, OFFLINE_JOBS)
        after = {job["metadata"]["name"]: (job.get("status") or {}).get("assignment", {}).get("id") for job in stored}
        revoked = sum(after.get(name) != id_ for name, id_ in before.items())
        now = await self._pods()
        self._say(f"after the outage: {revoked} of {len(before)} assignments revoked")
        lost = sum(now.get(name) != uid for name, uid in pods.items())
        return Outage(ready - began, placed, made, len(before), revoked, len(pods), lost)

    async def _pods(self) -> dict[str, str]:
        """Of held jobs, that run: name → UID."""
        pods = await list_all(self._client, PODS)
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in pods
            if pod["metadata"]["name"].startswith(HELD) and pod["status"].get("phase") == "Running"
        }

    async def _insist(self, work: Callable[[], Awaitable[list[str]]]) -> list[str]:
        """An API server that has just come up may refuse for a moment."""
        deadline = time.monotonic() + self._sizes.other_limit_seconds
        while True:
            try:
                return await work()
            except* KubeError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_LOOK_SECONDS)

    async def _seconds_until(
        self, resource: Resource, names: list[str], since: float, holds: Callable[[dict[str, Any]], bool]
    ) -> float | Missing:
        """Asks the API server, as the watch may come back later than the parts that are measured."""
        deadline = time.monotonic() + self._sizes.other_limit_seconds
        waiting = list(names)
        while waiting:
            if time.monotonic() > deadline:
                return Missing(f"{waiting[0]} did not get there within {self._sizes.other_limit_seconds:.0f} s")
            with contextlib.suppress(KubeError):
                if holds(await get(self._client, resource, NAMESPACE, waiting[0])):
                    waiting.pop(0)
                    continue
            await asyncio.sleep(_LOOK_SECONDS)
        return time.monotonic() - since

    async def _release(self) -> None:
        await self._asked("release")
        await self._finished(list(self._follower.times.created), self._sizes.other_limit_seconds)

    async def _finished(self, names: list[str], most_seconds: float) -> int:
        times = self._follower.times
        return await self._follower.wait(
            lambda: sum(name in times.finished for name in names),
            len(names), most_seconds, lambda text: self._say(f"finished: {text}"),
        )  # fmt: skip

    async def _burst(self) -> Burst:
        numbers = range(self._sizes.held, self._sizes.jobs)
        await self._asked("tally")
        before, began = await self._meter.read(), time.monotonic()
        names = await self._follower.make(numbers, held=False)
        creating = time.monotonic() - began
        self._say(f"{len(names)} jobs are made, in {creating:.1f} s")
        await self._placed(names, self._sizes.place_limit_seconds)
        times = self._follower.times
        last = max((times.placed[name] for name in names if name in times.placed), default=time.monotonic())
        finished = await self._finished(names, self._sizes.finish_limit_seconds)
        reading, crowd = (await self._meter.read()).since(before), await self._asked("tally")
        waits = times.waits(names)
        self._say(f"{len(waits)} jobs placed in {last - began:.1f} s, {finished} finished")
        return Burst(reading, crowd["late_seconds_p99"], waits, last - began, creating, finished, crowd)
