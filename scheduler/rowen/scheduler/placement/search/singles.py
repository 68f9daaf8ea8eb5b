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
    job, columns, allowed = request.job, fleet.settled(), allowed_rows(request, fleet)
    offer = fleet.offer(request.appetite, job.memory)
    rates = fleet.rates(request.rates) if request.rates else None

    def order(at: At) -> Numbers:
        shares = offer.shares[at]
        enough = shares >= request.least() if job.sla is None else offer.keeps(request.promise)[at]
        fits = (columns.free[at] >= job.memory) & enough & offer.takes[at]
        fits = fits if allowed is None else fits & allowed[at]
        keys = offer.keys[at] if rates is None else key_of(shares * rates[at] - offer.loss[at], shares)
        # Only who goes before all who pay may lower the total.
        fits &= (keys >= 0.0) | (offer.payer[at] < job.priority)
        return np.where(fits, keys, NEVER)

    return [fleet.device(row) for row in offer.best(order, most).tolist()]


def allowed_rows(request: Request, fleet: Fleet) -> Flags | None:
    """The rows on nodes where the job may be; None for all that are open."""
    eligible = fleet.eligible_rows(request.job.constraints)
    avoided = request.avoided
    if not avoided:
        return eligible
    left_out = fleet.settled().on([fleet.number[name] for name in avoided if name in fleet.number])
    return ~left_out if eligible is None else eligible & ~left_out
