"""The shell around the policies: reads the mirrors, decides, writes, forever."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import kr8s
import structlog
from kr8s.asyncio import Api

from rowen.crds.apply import apply_status
from rowen.crds.names import SCHEDULER_MANAGER
from rowen.scheduler.cluster import Cluster
from rowen.scheduler.decision import Action, Decision, Outcome, backoff_key, decide
from rowen.scheduler.doubt import Doubt, suspects
from rowen.scheduler.history import History
from rowen.scheduler.metrics import Metrics
from rowen.scheduler.mirror import FAILURES
from rowen.scheduler.monitor import observe
from rowen.scheduler.policy import Policy
from rowen.scheduler.refusal import Refusal, refused
from rowen.scheduler.snapshot import JobKey, Snapshot
from rowen.scheduler.status import Wanted, gist, manifest, owned, wanted, worth_writing
from rowen.scheduler.store import Store, encode

PASS_SECONDS = 2.0
"""Longest time between two passes."""
_LEAST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 20.0
_STUCK_SECONDS = 60.0
_SAVE_SECONDS = 30.0
_LAST_SAVE_SECONDS = 5.0
_WRITERS = 8
_TRY_LATER = (408, 429)

T = TypeVar("T")

log = structlog.get_logger()


def pause_seconds(worked: float, failures: int) -> float:
    """How long to rest after a pass that took `worked` seconds of the processor, or after failures in a row.

    A large cluster reports all the time, so there is always a reason for the next pass: passes may take a fifth of
    the processor, no more.
    """
    again = 2.0 ** min(failures, 10) if failures else 0.0
    return min(_LONGEST_PAUSE_SECONDS, max(_LEAST_PAUSE_SECONDS, 4.0 * worked, again))


class Loop:
    """The scheduler's loop. `clock` gives Unix seconds."""

    def __init__(self, api: Api, namespace: str, policy: Policy, clock: Callable[[], float] = time.time) -> None:
        self._api, self._clock = api, clock
        self._wake = asyncio.Event()
        self._store = Store(api, namespace)
        self._written: dict[JobKey, float] = {}
        self._refused: dict[JobKey, Refusal] = {}
        # The assignments whose withdrawal has begun a back-off.
        self._withdrawn: dict[JobKey, str] = {}
        self._saved, self._saved_at = "", float("-inf")
        self._beat, self._worked = time.monotonic(), 0.0
        self._loaded = False
        self.policy = policy
        self._doubt, self._waited_for = Doubt(), frozenset[str]()
        self.cluster = Cluster(api, self._wake.set, clock, policy.lease_seconds)
        self.metrics = Metrics()
        self.history = History()

    def now(self) -> float:
        """Unix seconds."""
        return self._clock()

    def alive(self) -> bool:
        """Whether the loop gets on, step by step; an API server that is slow or away does not stop it."""
        return time.monotonic() - self._beat < _STUCK_SECONDS

    def snapshot(self) -> Snapshot | None:
        """The cluster now; None while that is not known."""
        return self.cluster.snapshot(self.now()) if self.cluster.current() else None

    async def run(self) -> None:
        """Mirrors and passes until it is cancelled; what was learned is stored before it ends."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.cluster.run())
                group.create_task(self._turn())
        finally:
            await self._save_at_end()

    async def _turn(self) -> None:
        failures = 0
        while True:
            self._worked = 0.0
            try:
                async with asyncio.timeout(_STUCK_SECONDS):
                    await self._pass_if_current()
                failures = 0
            except (*FAILURES, TimeoutError) as error:
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
        if not self._loaded:
            latest = self.now() + self.policy.backoff_limit_seconds
            self.history = await self._step(self._store.load(latest))
            self._saved = encode(self.history)
            self._loaded = True
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
        await self._write(decision)
        with self._working():
            self.metrics.observe(snapshot, self.history, decision, self.now())
        await self._step(self._save())
        return decision

    def _tell(self, decision: Decision) -> None:
        if decision.waited_for - self._waited_for:
            log.warning("most nodes are silent at once and are waited for", nodes=sorted(decision.waited_for))
        elif self._waited_for and not decision.waited_for:
            log.info("no silent node is waited for any more")
        self._waited_for = decision.waited_for

    def _decide(self) -> tuple[Snapshot, Decision]:
        with self._working(), self.metrics.decision_seconds.time():
            now = self.now()
            snapshot = self.cluster.snapshot(now)
            observation = observe(self.history, snapshot, now, self.policy)
            self.history = observation.history
            self.metrics.errors(observation.errors)
            return snapshot, decide(snapshot, self.history, now, self.policy)

    async def _write(self, decision: Decision) -> None:
        """Writes what changed. Withdrawals go first, so that no slot is promised twice."""
        known = {outcome.job.uid for outcome in decision.outcomes}
        self._written = {uid: at for uid, at in self._written.items() if uid in known}
        self._refused = {uid: refusal for uid, refusal in self._refused.items() if uid in known}
        self._withdrawn = {uid: id_ for uid, id_ in self._withdrawn.items() if uid in known}
        writers = asyncio.Semaphore(_WRITERS)
        for withdrawals in (True, False):
            due = self._due([outcome for outcome in decision.outcomes if (outcome.loss is not None) is withdrawals])
            await asyncio.gather(*(self._write_one(outcome, new, decision, writers) for outcome, new in due))

    def _due(self, outcomes: Iterable[Outcome]) -> list[tuple[Outcome, Wanted]]:
        """What has changed enough to be written now, unless it has been refused of late."""
        found, at = [], time.monotonic()
        with self._working():
            for outcome in outcomes:
                job, refusal = outcome.job, self._refused.get(outcome.job.uid)
                if job.deleting or self._doubt.holds_back(outcome):
                    continue
                new = wanted(outcome, self.history, self.now(), self.policy)
                quiet = at - self._written.get(job.uid, float("-inf"))
                held = refusal is not None and refusal.holds(gist(new), at)
                if not held and worth_writing(new, owned(job.status), quiet, self.policy):
                    found.append((outcome, new))
        return found

    async def _write_one(self, outcome: Outcome, new: Wanted, decision: Decision, writers: asyncio.Semaphore) -> None:
        job = outcome.job
        try:
            async with writers:
                self._back_off(outcome, decision)
                stored = await self._step(apply_status(self._api, manifest(job, new), manager=SCHEDULER_MANAGER))
        except FAILURES as error:
            self._failed(outcome, new, error)
            return
        self.cluster.jobs.put(stored)
        self._written[job.uid] = time.monotonic()
        self._forgive(job.uid, new)
        self._count(outcome)

    def _failed(self, outcome: Outcome, new: Wanted, error: Exception) -> None:
        """Holds the write back for a while; whether it has arrived after all shows in the next list."""
        job, code, now = outcome.job, _status_code(error), time.monotonic()
        final = code is not None and 400 <= code < 500 and code not in _TRY_LATER
        about = gist(new) if final else None
        refusal = refused(self._refused.get(job.uid), about, now)
        self._refused[job.uid] = refusal
        if code != 404:
            retry = round(refusal.until(about) - now)
            log.warning("status not written", job=job.label, error=str(error), retry_seconds=retry)

    def _forgive(self, uid: JobKey, new: Wanted) -> None:
        """What has been refused stays refused while something else is taken."""
        before = self._refused.pop(uid, None)
        after = before.forgiven(gist(new)) if before is not None else None
        if after is not None:
            self._refused[uid] = after

    def _back_off(self, outcome: Outcome, decision: Decision) -> None:
        """The back-off begins before the write: the answer may be lost. An assignment begins one, however often."""
        job, lost = outcome.job, outcome.loss
        key = backoff_key(job, lost) if lost else None
        if key is None or job.placement is None or self._withdrawn.get(job.uid) == job.placement.id:
            return
        self._withdrawn[job.uid] = job.placement.id
        self.history = replace(self.history, backoffs={**self.history.backoffs, key: decision.backoffs[key]})

    def _count(self, outcome: Outcome) -> None:
        if outcome.action not in (Action.PLACE, Action.REVOKE):
            return
        job = outcome.job
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
        with self._working():
            text = encode(self.history)
        if text == self._saved:
            return
        # One that is refused is not tried again at once either.
        self._saved_at = time.monotonic()
        await self._store.save(self.history)
        self._saved = text


def _status_code(error: Exception) -> int | None:
    """The HTTP status that the API server refused with; None where it did not answer."""
    response = error.response if isinstance(error, kr8s.ServerError) else None
    return response.status_code if response is not None else None
