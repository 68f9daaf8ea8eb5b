"""Lends out a device's pool: looks at it, has the terms decided, applies them. Called by the agent's loops."""

import contextlib
from collections.abc import Callable

from rowen.node_agent.memory.headroom import HeadroomState
from rowen.node_agent.memory.loans import Borrower, Loans
from rowen.node_agent.memory.pool_status import PoolStatus
from rowen.node_agent.memory.terms import MemorySnapshot, PodTerms, Terms, decide

PodOf = Callable[[Borrower], PodTerms | None]
"""The pod of a process that has memory; None: it is not known yet."""


class Lender:
    """Of one device. It keeps nothing that the pool and the pods do not say again, but how headroom went so far."""

    def __init__(self) -> None:
        self._states: dict[int, HeadroomState] = {}

    def look(self, loans: Loans, fixed_bytes: int, pod_of: PodOf, now: float) -> PoolStatus:
        """One round. `fixed_bytes`: what the device's pods have for themselves; `now`: seconds, monotonic clock.

        Returns the pool as it was before.
        """
        # The door's thread adds and removes meanwhile.
        borrowers = dict(loans.borrowers)
        status = loans.status()
        pods = {number: pod for number, borrower in borrowers.items() if (pod := pod_of(borrower)) is not None}
        self._states = {number: state for number, state in self._states.items() if number in borrowers}
        self._apply(loans, decide(MemorySnapshot(now, status, fixed_bytes, pods, self._states)))
        return status

    def _apply(self, loans: Loans, terms: Terms) -> None:
        loans.fix(terms.fixed)
        for number, limit in terms.limits.items():
            # Its process may have ended since.
            with contextlib.suppress(KeyError):
                loans.share(number, 0, limit)
        for number, demand in terms.demands.items():
            with contextlib.suppress(KeyError):
                loans.bound(number, demand.bound)
                accepted = loans.demand(
                    number,
                    pressures=demand.pressures,
                    target=demand.target,
                    growth=demand.growth,
                    threshold=demand.threshold,
                )
                # Otherwise pressure came first: the next round sees it.
                if accepted and demand.state is not None:
                    self._states[number] = demand.state
