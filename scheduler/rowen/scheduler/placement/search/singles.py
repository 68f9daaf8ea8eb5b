"""The search for one device, over all of them at once."""

import numpy as np

from rowen.scheduler.placement.fleet.columns import NEVER, At, Flags, Numbers, key_of
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.fleet.states import DeviceState
from rowen.scheduler.placement.search.request import Request


def best_devices(request: Request, fleet: Fleet, most: int) -> list[DeviceState]:
    """The devices that `evaluate` would take, best first, so many at most."""
    if request.barred:
        return []
    job, columns, offer = request.job, fleet.settled(), fleet.offer(request.appetite, request.job.memory)
    eligible, avoided = fleet.eligible_rows(job.constraints), _avoided_rows(request, fleet)
    rates = fleet.rates(request.rates) if request.rates else None

    def order(at: At) -> Numbers:
        shares, keys = offer.shares[at], offer.keys[at]
        enough = shares >= request.least() if job.sla is None else offer.keeps(request.promise)[at]
        fits = enough & (columns.free[at] >= job.memory)
        if eligible is not None:
            fits &= eligible[at]
        if avoided is not None:
            fits &= ~avoided[at]
        if rates is not None:
            fits &= offer.takes[at]
            keys = key_of(shares * rates[at] - offer.loss[at], shares)
        # Only who goes before all who pay may lower the total.
        fits &= (keys >= 0.0) | (offer.payer[at] < job.priority)
        return np.where(fits, keys, NEVER)

    found = offer.best(order, most, request.promise, job.constraints, eligible)
    return [fleet.device(row) for row in found.tolist()]


def allowed_rows(request: Request, fleet: Fleet) -> Flags | None:
    """The rows on nodes where the job may be; None for all that are open."""
    eligible, avoided = fleet.eligible_rows(request.job.constraints), _avoided_rows(request, fleet)
    if avoided is None:
        return eligible
    return ~avoided if eligible is None else eligible & ~avoided


def _avoided_rows(request: Request, fleet: Fleet) -> Flags | None:
    """The rows on nodes where it may not be for what has happened there, or who is there; None for none."""
    avoided = request.avoided
    return fleet.columns.on([fleet.number[name] for name in avoided if name in fleet.number]) if avoided else None
