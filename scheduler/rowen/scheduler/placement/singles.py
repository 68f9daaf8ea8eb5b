"""The search for one device, over all of them at once."""

from rowen.scheduler.placement.columns import Flags, key_of
from rowen.scheduler.placement.fleet import Fleet
from rowen.scheduler.placement.request import Request
from rowen.scheduler.placement.states import DeviceState


def best_devices(request: Request, fleet: Fleet, most: int) -> list[DeviceState]:
    """The devices that `evaluate` would take, best first, so many at most."""
    if request.barred:
        return []
    job, columns = request.job, fleet.settled()
    offer = fleet.offer(request.appetite)
    keys, shares = offer.keys, offer.shares
    if request.rates:
        keys = key_of(shares * fleet.rates(request.rates) - columns.loss, shares)
    enough = shares >= request.least() if job.sla is None else offer.keeps(request.promise)
    fits = columns.takes & (columns.free >= job.memory) & enough
    allowed = allowed_rows(request, fleet)
    fits = fits if allowed is None else fits & allowed
    rows = columns.best(fits, keys, most)
    if rows and keys[rows[-1]] < 0.0:
        # Only who goes before all who pay may lower the total.
        rows = columns.best(fits & ((keys >= 0.0) | (columns.payer < job.priority)), keys, most)
    return [fleet.device(row) for row in rows]


def allowed_rows(request: Request, fleet: Fleet) -> Flags | None:
    """The rows on nodes where the job's pod can run and has not failed; None for all that are open."""
    eligible = fleet.eligible_rows(request.job.constraints)
    if not request.backoffs:
        return eligible
    failed = fleet.settled().on([fleet.number[name] for name in request.backoffs if name in fleet.number])
    return ~failed if eligible is None else eligible & ~failed
