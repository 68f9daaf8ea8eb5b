"""The shell around the policies: reads the copies, decides, writes, forever."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import structlog

from rowen.crds.names import SCHEDULER_MANAGER
from rowen.kube.client import Client
from rowen.kube.election import ensure_held
from rowen.kube.errors import KubeError, RefusedError
from rowen.kube.kinds import OFFLINE_JOBS
from rowen.kube.objects import CONFLICT, NOT_FOUND, apply_status, get
from rowen.scheduler import garbage
from rowen.scheduler.decision import Action, Decision, Outcome, backoff_key, decide, not_taken
from rowen.scheduler.history import History
from rowen.scheduler.monitor.backoff import Backoff, BackoffKey
from rowen.scheduler.monitor.doubt import Doubt, suspects
from rowen.scheduler.monitor.observation import observe
from rowen.scheduler.pace import pause_seconds
from rowen.scheduler.policy import Policy
from rowen.scheduler.promises import after_withdrawals
from rowen.scheduler.serve.metrics import Metrics
from rowen.scheduler.serve.sight import labels_of
from rowen.scheduler.snapshot import JobKey, JobView, Snapshot
from rowen.scheduler.world.cluster import Cluster
from rowen.scheduler.world.keeping import Keeping
from rowen.scheduler.world.refusal import Refusal, judged, refused
from rowen.scheduler.world.status import Wanted, gist, manifest, owned, wanted, worth_writing
from rowen.scheduler.world.store import Store

PASS_SECONDS = 2.0
"""Longest time between two passes."""
_STUCK_SECONDS = 60.0
_WRITERS = 8

T = TypeVar("T")

log = structlog.get_logger()


class Loop:
    """The scheduler's loop. `clock` gives Unix seconds."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        agent_namespace: str,
        policy: Policy,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """What it has learned is stored in `namespace`; the nodes' heartbeats are in `agent_namespace`."""
        self._client, self._clock = client, clock
        self._wake = asyncio.Event()
        self._keeping = Keeping(Store(client, namespace))
        self._written: dict[JobKey, float] = {}
        self._refused: dict[JobKey, Refusal] = {}
        # The assignments whose withdrawal has begun a back-off.
        self._withdrawn: dict[JobKey, str] = {}
        self._not_taken: dict[JobKey, str] = {}  # Refused assignments of this pass, and why.
        self._beat, self._worked, self._running = time.monotonic(), 0.0, False
        self.policy = policy
        self._doubt, self._waited_for = Doubt(), frozenset[str]()
        self.cluster = Cluster(client, agent_namespace, self._wake.set, clock, policy.lease_seconds)
        self.metrics, self.history = Metrics(), History()

    def now(self) -> float:
        """Unix seconds."""
        return self._clock()

    def alive(self) -> bool:
        """Whether the loop gets on, step by step; an API server that is slow or away does not stop it.

        One that stands by for another scheduler is alive.
        """
        return not self._running or time.monotonic() - self._beat < _STUCK_SECONDS

    def snapshot(self) -> Snapshot | None:
        """The cluster now; None while that is not known."""
        return self.cluster.snapshot(self.now()) if self.cluster.current() else None

    async def run(self) -> None:
        """Copies and passes until it is cancelled; what was learned is stored before it ends.

        It may run again: what another scheduler has stored in the meantime is loaded then, and what this one knew of
        its own writes is forgotten.
        """
        self._beat, self._running = time.monotonic(), True
        self._keeping.forget()
        self._refused, self._withdrawn, self._doubt = {}, {}, Doubt()
        try:
            with self.metrics.leading.track_inprogress():
                async with asyncio.TaskGroup() as group:
                    group.create_task(self.cluster.run())
                    group.create_task(self._turn())
        finally:
            self._running = False
            await self._keeping.save_at_end(self.history)

    async def _turn(self) -> None:
        failures = 0
        while True:
            self._worked = 0.0
            try:
                async with asyncio.timeout(_STUCK_SECONDS):
                    await self._pass_if_current()
                failures = 0
            except (KubeError, TimeoutError) as error:
                failures += 1
                log.warning("pass failed", error=str(error) or type(error).__name__)
            await self._step(asyncio.sleep(pause_seconds(self._worked, failures)))
            await self._step(self._sleep())

    async def _step(self, work: Awaitable[T]) -> T:
        """Waits for one step of the pass; its end shows that the loop gets on."""
        try:
            return await work
        finally:
            self._beat = time.monotonic()

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Counts processor time: that of the API server's answers is not the loop's. Meanwhile nothing is heard."""
        started, began = time.thread_time(), time.monotonic()
        try:
            yield
        finally:
            self._worked += time.thread_time() - started
            self.cluster.stalled(time.monotonic() - began)

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
        if not self._keeping.loaded:
            latest = self.now() + self.policy.backoff_limit_seconds
            self.history = await self._step(self._keeping.load(latest))
        await self.step()

    async def step(self) -> Decision:
        """One pass: snapshot, decide, apply."""
        snapshot, decision = self._decide()
        self._doubt = self._doubt.after(decision)
        if self._doubt.calls_for_listing(decision, time.monotonic()):
            self._doubt = replace(self._doubt, asked=time.monotonic())
            missing = await self._step(self.cluster.refresh())
            snapshot, decision = self._decide()
            # What no full listing has shown is not written; the rest of the pass does not depend on it.
            if not missing:
                self._doubt = replace(self._doubt, confirmed=suspects(decision))
        self._tell(decision)
        await self._write(snapshot, decision)
        with self._working():
            self.metrics.observe(snapshot, self.history, decision, self.now())
            stored = self._keeping.due(self.history)
        if stored:
            await self._step(self._keeping.save(self.history, stored))
        return decision

    def _tell(self, decision: Decision) -> None:
        if decision.waited_for - self._waited_for:
            log.warning("most nodes are silent at once and are waited for", nodes=sorted(decision.waited_for))
        elif self._waited_for and not decision.waited_for:
            log.info("no silent node is waited for any more")
        self._waited_for = decision.waited_for

    def _decide(self) -> tuple[Snapshot, Decision]:
        with self._working(), self.metrics.decision_seconds.time(), garbage.kept():
            now = self.now()
            snapshot = self.cluster.snapshot(now)
            observation = observe(self.history, snapshot, now, self.policy)
            self.history = observation.history
            self.metrics.errors(observation.errors)
            return snapshot, decide(snapshot, self.history, now, self.policy)

    async def _write(self, snapshot: Snapshot, decision: Decision) -> None:
        """Writes what changed. Withdrawals go first, so that no slot is promised twice."""
        known = {outcome.job.uid for outcome in decision.outcomes}
        self._written = {uid: at for uid, at in self._written.items() if uid in known}
        self._refused = {uid: refusal for uid, refusal in self._refused.items() if uid in known}
        self._withdrawn = {uid: id_ for uid, id_ in self._withdrawn.items() if uid in known}
        with self._working():
            labels = labels_of(snapshot)
        lost = [outcome for outcome in decision.outcomes if outcome.loss is not None]
        try:
            taken = await self._write_all(lost, labels, decision)
            await self._write_all(after_withdrawals(decision.outcomes, taken), labels, decision)
        finally:
            self.history = not_taken(self.history, self._not_taken, self.now(), self.policy)
            self._not_taken = {}

    async def _write_all(self, outcomes: Iterable[Outcome], labels: Collection[str], decision: Decision) -> set[JobKey]:
        """Writes those that are due; returns the jobs whose status was taken."""
        writers, due = asyncio.Semaphore(_WRITERS), self._due(outcomes, labels)
        taken = await asyncio.gather(*(self._write_one(outcome, new, decision, writers) for outcome, new in due))
        return {outcome.job.uid for (outcome, _), well in zip(due, taken, strict=True) if well}

    def _due(self, outcomes: Iterable[Outcome], labels: Collection[str]) -> list[tuple[Outcome, Wanted]]:
        """What has changed enough to be written now, unless it has been refused of late."""
        found, at = [], time.monotonic()
        with self._working():
            for outcome in outcomes:
                job, refusal = outcome.job, self._refused.get(outcome.job.uid)
                if job.deleting or self._doubt.holds_back(outcome):
                    continue
                new = wanted(outcome, labels, self.history, self.now(), self.policy)
                quiet = at - self._written.get(job.uid, float("-inf"))
                held = refusal is not None and refusal.holds(gist(new), at)
                if not held and worth_writing(new, owned(job.status), quiet):
                    found.append((outcome, new))
        return found

    async def _write_one(self, outcome: Outcome, new: Wanted, decision: Decision, writers: asyncio.Semaphore) -> bool:
        """Whether it was taken."""
        job, before, begun = outcome.job, self.history.backoffs, False
        try:
            async with writers:
                ensure_held()
                begun = self._back_off(outcome, decision)
                write = apply_status(self._client, OFFLINE_JOBS, manifest(job, new), manager=SCHEDULER_MANAGER)
                stored = await self._step(write)
        except KubeError as error:
            if isinstance(error, RefusedError) and error.status == CONFLICT:
                if begun:
                    self._take_back(outcome, before)
                await self._step(self._look_again(job))
            else:
                self._failed(outcome, new, error)
            return False
        self.cluster.jobs.put(stored)
        self._written[job.uid] = time.monotonic()
        self._forgive(job.uid, new)
        self._count(outcome)
        return True

    async def _look_again(self, job: JobView) -> None:
        """The job has changed since it was seen: the next pass decides on what it is now."""
        try:
            self.cluster.jobs.put(await get(self._client, OFFLINE_JOBS, job.namespace, job.name))
        except KubeError as error:
            log.info("job has changed and cannot be read", job=job.label, error=str(error))

    def _failed(self, outcome: Outcome, new: Wanted, error: KubeError) -> None:
        """Holds the write back for a while; whether it has arrived after all shows in the next list."""
        job, now = outcome.job, time.monotonic()
        about = gist(new) if judged(error) else None
        refusal = self._refused[job.uid] = refused(self._refused.get(job.uid), about, now)
        if about is not None and outcome.action is Action.PLACE:
            self._not_taken[job.uid] = str(error)
        if not (isinstance(error, RefusedError) and error.status == NOT_FOUND):
            wait = round(refusal.until(about) - now)
            log.warning("status not written", job=job.label, error=str(error), retry_seconds=wait)

    def _forgive(self, uid: JobKey, new: Wanted) -> None:
        """What has been refused stays refused while something else is taken."""
        before = self._refused.pop(uid, None)
        after = before.forgiven(gist(new)) if before is not None else None
        if after is not None:
            self._refused[uid] = after

    def _back_off(self, outcome: Outcome, decision: Decision) -> bool:
        """The back-off begins before the write: the answer may be lost. An assignment begins one, however often.

        Returns whether it has begun now.
        """
        job, key = outcome.job, backoff_key(outcome.job, outcome.loss)
        if key is None or job.placement is None or self._withdrawn.get(job.uid) == job.placement.id:
            return False
        self._withdrawn[job.uid] = job.placement.id
        self.history = self.history.backed_off({key: decision.backoffs[key]})
        return True

    def _take_back(self, outcome: Outcome, before: Mapping[BackoffKey, Backoff]) -> None:
        """Nothing was withdrawn, so the job's back-off is again what it was before."""
        job, key = outcome.job, backoff_key(outcome.job, outcome.loss)
        self._withdrawn.pop(job.uid, None)
        if key is not None:
            self.history = self.history.backed_off_as(key, before)

    def _count(self, outcome: Outcome) -> None:
        if outcome.action not in (Action.PLACE, Action.REVOKE):
            return
        self.metrics.written(outcome, self.now())
        reason = outcome.loss.reason.value if outcome.loss else "Placed"
        log.info(outcome.action.value, job=outcome.job.label, reason=reason, message=outcome.message)
