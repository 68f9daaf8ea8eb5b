"""How the arms divide a device's pool between its engine and its batch worker.

All of them use the product's pool and its native thread: what an engine wants it is given at once where memory is free,
and what is taken is taken while offline work stands still. They differ in what they tell the pool:

    alone             the engine has all of it, the worker nothing
    rowen             the agent's own loop: headroom for the engine, the rest for the worker, taken back by force
    rowen_60          the same with targetReclaimsPerHour of 60, where 12 is the default
    static            the worker has a fixed part. An engine that wants more than the rest kills it (StaticMem of Valve,
                      section 7.2); its successor has no more than is free then
    never_reclaimed   the worker may have all but what one request takes, and keeps what its requests use until they
                      end; the engine has what is free, as it wants it (as Prism does; Valve, section 7.2)
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from harvest.load import SPEED
from typing_extensions import override

from rowen.crds.service.online_service import HarvestMemory
from rowen.node_agent.memory.headroom import HeadroomDecision, HeadroomState, Observation, decide
from rowen.node_agent.memory.lender import Lender
from rowen.node_agent.memory.loans import Loans
from rowen.node_agent.memory.pool_status import MemberStatus, PoolStatus
from rowen.node_agent.memory.terms import FIRST_PART, PodTerms

DEFAULT, SIXTY = HarvestMemory(), HarvestMemory(target_reclaims_per_hour=60)
"""Settings of a service."""
POLICY_SECONDS = 0.5
"""Of the trace, between two rounds of the agent's loop."""
_GROWTH_MARGIN = 20
"""Handles that a running worker may begin to use between two looks: more than one for each of its sequences."""


class Shares:
    """The pool, as an arm tells it what to do."""

    def __init__(self, loans: Loans, handles: int) -> None:
        self.loans, self.handles = loans, handles

    def status(self) -> PoolStatus:
        """The pool now."""
        return self.loans.status()

    def member(self, status: PoolStatus, slot: int | None) -> MemberStatus | None:
        """The engine (None) or the worker; None where it has no memory."""
        for number, borrower in dict(self.loans.borrowers).items():
            if borrower.slot == slot:
                with contextlib.suppress(KeyError):
                    return status.of(number)
        return None

    def give_engine(self, target: int) -> None:
        """What the engine shall own, besides what it wants. Raises `RuntimeError` without one."""
        while True:
            engine = self.member(self.status(), None)
            if engine is None:
                raise RuntimeError("the engine has no memory of the pool")
            self.loans.bound(engine.number, self.handles)
            if self.loans.demand(
                engine.number, pressures=engine.pressures, target=target, growth=target, threshold=1.0
            ):
                return

    def give_worker(self, request: int, limit: int) -> None:
        """What the worker keeps, and may have at most; nothing happens while there is none."""
        worker = self.member(self.status(), 0)
        if worker is not None:
            with contextlib.suppress(KeyError):
                self.loans.share(worker.number, request, limit)


class Division(Protocol):
    """An arm's way."""

    def enter(self) -> None:
        """The arm begins."""

    def look(self, now: float, *, gate_open: bool) -> None:
        """Some milliseconds have passed. `now`: seconds, monotonic."""


class Apart(Division):
    """Nothing changes its owner."""

    def __init__(self, shares: Shares, *, engine: int, worker: int) -> None:
        """Handles that each may have, of the pool's."""
        self._shares, self._engine, self._worker = shares, engine, worker

    @override
    def enter(self) -> None:
        # Whoever gives, gives first.
        self._shares.give_worker(0, 0)
        self._shares.give_engine(self._engine)
        self._shares.give_worker(0, self._worker)

    @override
    def look(self, now: float, *, gate_open: bool) -> None:
        pass


@dataclass(frozen=True)
class Past:
    """Rowen's policy after an hour of the trace."""

    state: HeadroomState
    time: float
    """Seconds of the trace that it has seen."""


def past(uses: Sequence[int], handles: int, service: HarvestMemory) -> Past:
    """From what the engine used, `POLICY_SECONDS` of the trace apart: every raise takes from offline work."""
    headroom, taken = -(-handles // FIRST_PART), 0
    decision: HeadroomDecision | None = None
    for number, used in enumerate(uses or [0]):
        before = headroom
        if decision and used >= service.pressure_threshold * headroom:
            headroom = decision.growth
        taken += max(0, headroom - before)
        seen = Observation(pool=handles, headroom=headroom, used=used, taken=taken)
        decision = decide(decision.state if decision else None, seen, number * POLICY_SECONDS, service)
        taken += max(0, decision.state.headroom - headroom)
        headroom = decision.state.headroom
    assert decision is not None
    return Past(decision.state, max(0, len(uses) - 1) * POLICY_SECONDS)


class Rowen(Division):
    """The agent's loop, to which time passes as in the trace."""

    def __init__(self, shares: Shares, service: HarvestMemory) -> None:
        self.service, self._shares, self._lender = service, shares, Lender()
        self._terms = PodTerms("pod", shares.handles * shares.status().handle_bytes, service)
        self.past: Past | None = None
        """At the start of a turn; set before it."""
        self._passed = 0.0
        self._last = 0.0

    @override
    def enter(self) -> None:
        if self.past is None:
            raise RuntimeError("nothing of the past")
        self._lender, self._passed, self._last = Lender(), self.past.time, 0.0
        self._shares.give_engine(self.past.state.headroom)
        self._shares.give_worker(0, self._shares.handles)

    def _remember(self, past: Past) -> None:
        """What was taken before is the change of arms, and no reclaim."""
        status = self._shares.status()
        engine = self._shares.member(status, None)
        if engine is None:
            raise RuntimeError("no engine")
        self._lender._states[engine.number] = replace(past.state, taken=status.handles_for_engines)

    @override
    def look(self, now: float, *, gate_open: bool) -> None:
        since = now - self._last if self._last else POLICY_SECONDS / SPEED
        if since < POLICY_SECONDS / SPEED:
            return
        if not self._last and self.past is not None:
            self._remember(self.past)
        self._last = now
        self._passed += since * SPEED
        self._lender.look(self._shares.loans, 0, lambda _: self._terms, self._passed)


class Static(Division):
    """A fixed part, and a kill when that is too much."""

    def __init__(self, shares: Shares, kill: Callable[[], None]) -> None:
        self._shares, self._kill = shares, kill
        self.part = 0
        """Of the worker at the start of a turn, in handles; set before it."""
        self._now = 0

    @override
    def enter(self) -> None:
        self._now = self.part
        self._shares.give_worker(self._now, self._now)
        self._shares.give_engine(self._shares.handles - self._now)

    @override
    def look(self, now: float, *, gate_open: bool) -> None:
        engine = self._shares.member(self._shares.status(), None)
        wanted = max(engine.wanted, engine.used) if engine else 0
        if wanted > self._shares.handles - self._now:
            self._now = max(0, self._shares.handles - wanted)
            self._kill()
        # Of a successor, too.
        self._shares.give_worker(self._now, self._now)


class NeverReclaimed(Division):
    """What the worker's requests use stays theirs."""

    def __init__(self, shares: Shares, engine_part: int) -> None:
        """`engine_part`: handles that the engine always has."""
        self._shares, self._engine_part = shares, engine_part

    @override
    def enter(self) -> None:
        self._shares.give_engine(self._engine_part)
        self.look(0.0, gate_open=True)

    @override
    def look(self, now: float, *, gate_open: bool) -> None:
        status = self._shares.status()
        worker, engine = self._shares.member(status, 0), self._shares.member(status, None)
        if worker is not None:
            limit = self._shares.handles - self._engine_part
            used = worker.used + (_GROWTH_MARGIN if gate_open else 0)
            self._shares.give_worker(min(used, limit), limit)
        if engine is not None:
            target = max(self._engine_part, engine.wanted, engine.used)
            if target < engine.target:
                self._shares.give_engine(target)
