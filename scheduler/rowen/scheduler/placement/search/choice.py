"""Chooses where a job goes, and says why not elsewhere."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

import numpy as np

from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.promise import Promise
from rowen.scheduler.placement.fleet.claims import Claim
from rowen.scheduler.placement.fleet.columns import NEVER, Flags
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.fleet.states import DeviceState
from rowen.scheduler.placement.search.evaluation import Devices, evaluate, fit
from rowen.scheduler.placement.search.request import Candidate, Choice, Request
from rowen.scheduler.placement.search.sets import best_sets, in_order, shown
from rowen.scheduler.placement.search.singles import best_devices
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, PodKey

EXPLAINED = 16
"""Most candidates in an explanation: the API's limit."""
_ALTERNATIVES = 2
"""Most candidates that fit in one."""


def choose(request: Request, fleet: Fleet, policy: Policy) -> Choice:
    """The candidate that adds most promised throughput and keeps every promise; if none does, why not."""
    return Choice(tuple(fitting(request, fleet, policy) or _told(request, fleet, policy)))


def fitting(request: Request, fleet: Fleet, policy: Policy) -> list[Candidate]:
    """The best candidates that fit, best first."""
    if request.job.devices == 1:
        found = [fit(request, fleet, state) for state in best_devices(request, fleet, _ALTERNATIVES)]
    else:
        found = best_sets(request, fleet, policy)
    return sorted(found, key=lambda candidate: candidate.rank)[:_ALTERNATIVES]


def survey(request: Request, fleet: Fleet, policy: Policy) -> Choice:
    """The choice, and behind it every other place that would be told of if there were none."""
    choice = choose(request, fleet, policy)
    told = {candidate.place for candidate in choice.candidates}
    others = (candidate for candidate in _told(request, fleet, policy) if candidate.place not in told)
    return Choice((*choice.candidates, *islice(others, EXPLAINED - len(choice.candidates))))


def _told(request: Request, fleet: Fleet, policy: Policy) -> Iterator[Candidate]:
    """Places in the order in which they would have been taken, then where its pod cannot run, then closed devices."""
    told = [evaluate(request, fleet, devices, policy) for devices in islice(_places(request, fleet), EXPLAINED)]
    told.sort(key=lambda candidate: candidate.rank)
    others = (evaluate(request, fleet, devices, policy) for devices in _excluded(request, fleet))
    closed = (
        Candidate(
            devices[0].view.node,
            tuple(sorted(state.view.id for state in devices)),
            fleet.predict(devices, request.job, request.appetite),
            reason,
        )
        for devices, reason in _closed(request, fleet)
    )
    return islice(chain(told, others, closed), EXPLAINED)


def _closed(request: Request, fleet: Fleet) -> Iterator[tuple[Devices, str]]:
    """Where nothing is placed, and why: devices, or of each node with enough of them the job's number."""
    count = request.job.devices
    if count == 1:
        yield from (((state,), reason) for state, reason in fleet.closed())
        return
    # First those that lack a few devices, then those that are out altogether.
    for out in (False, True):
        for number, view in enumerate(fleet.views):
            if bool(fleet.refusals[number]) is out and len(view.by_id) >= count:
                node = fleet.node(number)
                found = node.open_devices()
                if len(found) < count:
                    shut = [state for state in node.devices.values() if state not in found]
                    yield tuple((*found, *shut)[:count]), node.refusal or _too_few(count, found, shut)


def _too_few(count: int, found: Sequence[DeviceState], shut: Sequence[DeviceState]) -> str:
    usable = f"{len(found)} of its {len(found) + len(shut)} devices can be used, the job needs {count}"
    return f"{usable}: {shut[0].view.id}: {shut[0].view.closed}"


def _places(request: Request, fleet: Fleet) -> Iterator[Devices]:
    if request.job.devices > 1:
        for number in _nodes(request, fleet, eligible=True):
            yield from shown(request, fleet, fleet.node(number))
        return
    columns, eligible = fleet.settled(), fleet.eligible_rows(request.job.constraints)
    yield from _told_first(request, fleet, columns.open if eligible is None else columns.open & eligible)


def _excluded(request: Request, fleet: Fleet) -> Iterator[Devices]:
    """Where the job's pod cannot run: a place of each node, or each device."""
    count = request.job.devices
    if count > 1:
        for number in _nodes(request, fleet, eligible=False):
            yield tuple(in_order(fleet.node(number).open_devices(), fleet, request)[:count])
        return
    columns, eligible = fleet.settled(), fleet.eligible_rows(request.job.constraints)
    if eligible is not None:
        yield from _told_first(request, fleet, columns.open & ~eligible)


def _told_first(request: Request, fleet: Fleet, rows: Flags) -> Iterator[Devices]:
    """The first of these rows: empty devices, then shared and full ones, in each by what the newcomer gets."""
    offer = fleet.offer(request.appetite, request.job.memory)
    return ((fleet.device(row),) for row in offer.told_first(rows, EXPLAINED).tolist())


def _nodes(request: Request, fleet: Fleet, *, eligible: bool) -> Iterator[int]:
    """Open nodes with enough devices, by what these can give at most."""
    columns, allowed = fleet.settled(), fleet.eligible(request.job.constraints)
    shares = columns.nth_best(
        fleet.offer(request.appetite, request.job.memory).exact().shares, columns.open, request.job.devices
    )
    for number in map(int, np.argsort(-shares, kind="stable")):
        if shares[number] == NEVER:
            return
        if (number in allowed) == eligible:
            yield number


def claim_of(
    job: JobView,
    node: str,
    devices: tuple[str, ...],
    promise: Promise,
    appetite: Appetite | None,
    rate: float,
    pod: PodKey | None = None,
) -> Claim:
    """What the job holds once it is placed there. The kubelet may have put its slots on fewer devices."""
    memory = job.memory * job.devices // max(1, len(devices))
    return Claim(job.uid, job.label, node, devices, job.devices, memory, promise, appetite, job.priority, rate, pod)
