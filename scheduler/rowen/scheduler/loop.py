"""The shell around the policies: reads the mirrors, decides, writes, forever."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import kr8s
import structlog
from kr8s.asyncio import Api

from rowen.crds.apply import apply_status
from rowen.crds.names import SCHEDULER_MANAGER
from rowen.scheduler.cluster import Cluster
from rowen.scheduler.decision import Action, Decision, Outcome, decide
from rowen.scheduler.history import History
from rowen.scheduler.lease import Reason
from rowen.scheduler.metrics import Metrics
from rowen.scheduler.mirror import FAILURES
from rowen.scheduler.monitor import observe
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobKey, Snapshot
from rowen.scheduler.status import manifest, owned, wanted, worth_writing
from rowen.scheduler.store import Store, encode

PASS_SECONDS = 2.0
"""Longest time between two passes."""
_LEAST_SECONDS = 0.2
_STUCK_SECONDS = 60.0
_SAVE_SECONDS = 30.0
_LAST_SAVE_SECONDS = 5.0
_WRITERS = 8
_LONGEST_HOLD = 60.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Writes of a job that failed in a row."""

    count: int
    until: float
    """Monotonic time before which it is not tried again."""


class Loop:
    """The scheduler's loop. `clock` gives Unix seconds."""

    def __init__(self, api: Api, namespace: str, policy: Policy, clock: Callable[[], float] = time.time) -> None:
        self._api, self._clock = api, clock
        self._wake = asyncio.Event()
        self._store = Store(api, namespace)
        self._written: dict[JobKey, float] = {}
        self._refused: dict[JobKey, Refusal] = {}
        self._saved, self._saved_at = "", float("-inf")
        self._beat = time.monotonic()
        self._loaded = False
        self.policy = policy
        self.cluster = Cluster(api, self._wake.set)
        self.metrics = Metrics()
        self.history = History()

    def now(self) -> float:
        """Unix seconds."""
        return self._clock()

    def alive(self) -> bool:
        """Whether the loop turns; an API server that is away does not stop it."""
        return time.monotonic() - self._beat < _STUCK_SECONDS

    def snapshot(self) -> Snapshot | None:
        """The cluster now; None while that is not known."""
        return self.cluster.snapshot() if self.cluster.current() else None

    async def run(self) -> None:
        """Mirrors and passes until it is cancelled; what was learned is stored before it ends."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.cluster.run())
                group.create_task(self._turn())
        finally:
            await self._save_at_end()

    async def _turn(self) -> None:
        while True:
            self._beat = started = time.monotonic()
            try:
                async with asyncio.timeout(_STUCK_SECONDS):
                    await self._pass_if_current()
            except (*FAILURES, TimeoutError) as error:
                log.warning("pass failed", error=str(error) or type(error).__name__)
            # A large cluster reports all the time: passes may take a fifth of the processor, no more.
            await asyncio.sleep(max(_LEAST_SECONDS, 4.0 * (time.monotonic() - started)))
            await self._sleep()

    async def _sleep(self) -> None:
        try:
            async with asyncio.timeout(PASS_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._wake.clear()

    async def _pass_if_current(self) -> None:
        """A pass, if what is known is fresh: on stale knowledge nothing is decided, and leases run out."""
        if not self.cluster.current():
            return
        if not self._loaded:
            self.history = await self._store.load()
            self._saved = encode(self.history)
            self._loaded = True
        await self.step()

    async def step(self) -> Decision:
        """One pass: snapshot, decide, apply."""
        snapshot, decision = self._decide()
        if any(outcome.loss and outcome.loss.reason is Reason.NODE_LOST for outcome in decision.outcomes):
            # A silent watch looks like a silent node: ask once more before work is taken away.
            await self.cluster.refresh()
            snapshot, decision = self._decide()
        await self._write(decision)
        self.metrics.observe(snapshot, self.history, decision, self.now())
        await self._save()
        return decision

    def _decide(self) -> tuple[Snapshot, Decision]:
        with self.metrics.decision_seconds.time():
            now = self.now()
            snapshot = self.cluster.snapshot()
            observation = observe(self.history, snapshot, now, self.policy)
            self.history = observation.history
            self.metrics.errors(observation.errors)
            return snapshot, decide(snapshot, self.history, now, self.policy)

    async def _write(self, decision: Decision) -> None:
        """Writes what changed. Withdrawals go first, so that no slot is promised twice."""
        known = {outcome.job.uid for outcome in decision.outcomes}
        self._written = {uid: at for uid, at in self._written.items() if uid in known}
        self._refused = {uid: refusal for uid, refusal in self._refused.items() if uid in known}
        writers = asyncio.Semaphore(_WRITERS)
        for withdrawals in (True, False):
            chosen = [outcome for outcome in decision.outcomes if (outcome.loss is not None) is withdrawals]
            await asyncio.gather(*(self._write_one(outcome, decision, writers) for outcome in chosen))

    async def _write_one(self, outcome: Outcome, decision: Decision, writers: asyncio.Semaphore) -> None:
        job, started = outcome.job, time.monotonic()
        refusal = self._refused.get(job.uid)
        if job.deleting or (refusal is not None and started < refusal.until):
            return
        new, old = wanted(outcome, self.history, self.now(), self.policy), owned(job.status)
        if not worth_writing(new, old, started - self._written.get(job.uid, float("-inf")), self.policy):
            return
        try:
            async with writers:
                stored = await apply_status(self._api, manifest(job, new), manager=SCHEDULER_MANAGER)
        except FAILURES as error:
            await self._failed(outcome, error)
            return
        self.cluster.jobs.put(stored)
        self._written[job.uid] = time.monotonic()
        self._refused.pop(job.uid, None)
        self._count(outcome, decision)

    async def _failed(self, outcome: Outcome, error: Exception) -> None:
        """Holds the job for a while; whether the write has arrived shows in the next list."""
        job = outcome.job
        gone = isinstance(error, kr8s.ServerError) and error.response is not None and error.response.status_code == 404
        count = self._refused.get(job.uid, Refusal(0, 0.0)).count + 1
        hold = min(_LONGEST_HOLD, 2.0 ** min(count, 10))
        self._refused[job.uid] = Refusal(count, time.monotonic() + hold)
        if not gone:
            log.warning("status not written", job=job.label, error=str(error), retry_seconds=hold)

    def _count(self, outcome: Outcome, decision: Decision) -> None:
        if outcome.action not in (Action.PLACE, Action.REVOKE):
            return
        job = outcome.job
        held = outcome.placement or job.placement
        if held is not None:
            key = (job.uid, held.node)
            if key in decision.backoffs:
                self.history = replace(self.history, backoffs={**self.history.backoffs, key: decision.backoffs[key]})
        self.metrics.written(outcome, self.now())
        reason = outcome.loss.reason.value if outcome.loss else "Placed"
        log.info(outcome.action.value, job=job.label, reason=reason, message=outcome.message)

    async def _save(self) -> None:
        """Stores what outlives a restart, when it has changed and not too often."""
        if time.monotonic() - self._saved_at >= _SAVE_SECONDS:
            await self._save_changes()

    async def _save_at_end(self) -> None:
        if not self._loaded:
            return
        try:
            async with asyncio.timeout(_LAST_SAVE_SECONDS):
                await self._save_changes()
        except (*FAILURES, TimeoutError) as error:
            log.warning("profiles not stored at the end", error=str(error) or type(error).__name__)

    async def _save_changes(self) -> None:
        text = encode(self.history)
        if text == self._saved:
            return
        await self._store.save(self.history)
        self._saved, self._saved_at = text, time.monotonic()
