"""The search for one device, over all of them at once."""

from rowen.scheduler.placement.fleet.columns import Flags, key_of
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.fleet.offer import Offer
from rowen.scheduler.placement.fleet.states import DeviceState
from rowen.scheduler.placement.fleet.toll import Toll
from rowen.scheduler.placement.search.request import Request


def best_devices(request: Request, fleet: Fleet, most: int) -> list[DeviceState]:
    """The devices that `evaluate` would take, best first, so many at most."""
    if request.barred:
        return []
    job, columns = request.job, fleet.settled()
    offer, toll = fleet.offer(request.appetite, job.memory), fleet.toll(job.memory)
    enough = offer.shares >= request.least() if job.sla is None else offer.keeps(request.promise)
    able = (columns.free >= job.memory) & enough
    allowed = allowed_rows(request, fleet)
    able = able if allowed is None else able & allowed
    ahead = most
    while True:
        rows = _best(request, fleet, offer, toll, able, ahead)
        if not toll.bounds[rows[:most]].any():
            return [fleet.device(row) for row in rows[:most]]
        for row in rows:
            if toll.bounds[row]:
                toll.charge(row, fleet.impact((fleet.device(row),), job.memory))
        ahead *= 2


def _best(request: Request, fleet: Fleet, offer: Offer, toll: Toll, able: Flags, most: int) -> list[int]:
    """The best of these rows, where the newcomer's own memory costs others as much as is known of it."""
    job, columns, keys = request.job, fleet.settled(), offer.keys
    if request.rates:
        keys = key_of(offer.shares * fleet.rates(request.rates) - toll.loss, offer.shares)
    elif columns.trades:
        keys = key_of(offer.shares - toll.loss, offer.shares)
    fits = able & toll.takes
    rows = columns.best(fits, keys, most)
    if rows and keys[rows[-1]] < 0.0:
        # Only who goes before all who pay may lower the total.
        rows = columns.best(fits & ((keys >= 0.0) | (toll.payer < job.priority)), keys, most)
    return rows


def allowed_rows(request: Request, fleet: Fleet) -> Flags | None:
    """The rows on nodes where the job's pod can run and has not failed; None for all that are open."""
    eligible = fleet.eligible_rows(request.job.constraints)
    if not request.backoffs:
        return eligible
    failed = fleet.settled().on([fleet.number[name] for name in request.backoffs if name in fleet.number])
    return ~failed if eligible is None else eligible & ~failed
