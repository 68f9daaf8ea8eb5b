"""Chooses where a job goes, and says why not elsewhere."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.promise import Promise
from rowen.scheduler.placement.fleet.claims import Claim
from rowen.scheduler.placement.fleet.columns import NEVER, Flags
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.fleet.states import DeviceState
from rowen.scheduler.placement.search.evaluation import Devices, evaluate, fit, shared
from rowen.scheduler.placement.search.request import Candidate, Choice, Request
from rowen.scheduler.placement.search.sets import best_sets, in_order, shown
from rowen.scheduler.placement.search.singles import best_devices
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, PodKey

EXPLAINED = 16
"""Most candidates in an explanation, unless a page of all of them is asked for."""
_ALTERNATIVES = 2
"""Most candidates that fit in one."""
_Place = tuple[int, Devices, str]
"""Its kind (0 where a job may be placed, 1 where its pod cannot run, 2 what is closed), and why it is closed."""
_Name = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Page:
    """Which of all candidates are told."""

    offset: int = 0
    limit: int = EXPLAINED

    @property
    def end(self) -> int:
        """How many there are up to its last."""
        return self.offset + self.limit


def choose(request: Request, fleet: Fleet, policy: Policy) -> Choice:
    """The candidate that adds most promised throughput and keeps every promise; if none does, why not."""
    return Choice(tuple(fitting(request, fleet, policy) or _told(request, fleet, policy, Page())))


def fitting(request: Request, fleet: Fleet, policy: Policy) -> list[Candidate]:
    """The best candidates that fit, best first."""
    if request.job.devices == 1:
        found = [fit(request, fleet, state) for state in best_devices(request, fleet, _ALTERNATIVES)]
    else:
        found = best_sets(request, fleet, policy)
    return sorted(found, key=lambda candidate: candidate.rank)[:_ALTERNATIVES]


def survey(request: Request, fleet: Fleet, policy: Policy) -> Choice:
    """The choice, and behind it every other place that would be told of if there were none."""
    return Choice(tuple(survey_page(request, fleet, policy, Page())))


def survey_page(request: Request, fleet: Fleet, policy: Policy, page: Page) -> list[Candidate]:
    """A page of all candidates: the choice, then every other place. All pages of a snapshot tell each once."""
    best = fitting(request, fleet, policy)
    told = {(candidate.node, candidate.devices) for candidate in best}
    rest = Page(max(0, page.offset - len(best)), page.end - max(page.offset, len(best)))
    others = _told(request, fleet, policy, rest, told) if rest.limit > 0 else ()
    return [*best[page.offset : page.end], *others]


def _told(
    request: Request, fleet: Fleet, policy: Policy, page: Page, without: Collection[_Name] = ()
) -> list[Candidate]:
    """Places in the order in which they would have been taken, then where its pod cannot run, then closed devices."""
    places = islice(_all(request, fleet, page.end + len(without), without), page.offset, page.end)
    told = [(kind, _candidate(request, fleet, devices, policy, closed)) for kind, devices, closed in places]
    told.sort(key=lambda one: (one[0], () if one[0] else one[1].rank))
    return [candidate for _, candidate in told]


def _all(request: Request, fleet: Fleet, most: int, without: Collection[_Name]) -> Iterator[_Place]:
    """Every place, without those of these names; of a kind `most` at least, where there are so many."""
    places = chain(
        ((0, devices, "") for devices in _places(request, fleet, most)),
        ((1, devices, "") for devices in _excluded(request, fleet, most)),
        ((2, devices, reason) for devices, reason in _closed(request, fleet)),
    )
    return (place for place in places if _name(place[1]) not in without)


def _candidate(request: Request, fleet: Fleet, devices: Devices, policy: Policy, closed: str) -> Candidate:
    if not closed:
        return evaluate(request, fleet, devices, policy)
    prediction = fleet.predict(devices, request.job, request.appetite)
    return Candidate(*_name(devices), prediction, closed, shares=shared(devices))


def _name(devices: Devices) -> _Name:
    return devices[0].view.node, tuple(sorted(state.view.id for state in devices))


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


def _places(request: Request, fleet: Fleet, most: int) -> Iterator[Devices]:
    if request.job.devices > 1:
        for number in _nodes(request, fleet, eligible=True):
            yield from shown(request, fleet, fleet.node(number))
        return
    columns, eligible = fleet.settled(), fleet.eligible_rows(request.job.constraints)
    yield from _told_first(request, fleet, columns.open if eligible is None else columns.open & eligible, most)


def _excluded(request: Request, fleet: Fleet, most: int) -> Iterator[Devices]:
    """Where the job's pod cannot run: a place of each node, or each device."""
    count = request.job.devices
    if count > 1:
        for number in _nodes(request, fleet, eligible=False):
            yield tuple(in_order(fleet.node(number).open_devices(), fleet, request)[:count])
        return
    columns, eligible = fleet.settled(), fleet.eligible_rows(request.job.constraints)
    if eligible is not None:
        yield from _told_first(request, fleet, columns.open & ~eligible, most)


def _told_first(request: Request, fleet: Fleet, rows: Flags, most: int) -> Iterator[Devices]:
    """The first `most` of these rows: empty devices, then shared and full ones, in each by what the newcomer gets."""
    offer = fleet.offer(request.appetite, request.job.memory)
    return ((fleet.device(row),) for row in offer.told_first(rows, most).tolist())


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
    *,
    rides: bool = False,
) -> Claim:
    """What the job holds once it is placed there. The kubelet may have put its slots on fewer devices."""
    if rides:
        return Claim(
            job.uid, job.label, node, devices, 0, 0, promise, priority=job.priority, rate=rate, pod=pod, rides=True
        )
    memory = job.memory * job.devices // max(1, len(devices))
    return Claim(job.uid, job.label, node, devices, job.devices, memory, promise, appetite, job.priority, rate, pod)


def claimed(request: Request, place: Candidate) -> Claim:
    """What the job holds once it is placed there."""
    promise = request.seat_promise if place.rides else request.promise
    job, appetite = request.job, request.appetite
    return claim_of(job, place.node, place.devices, promise, appetite, place.rate, rides=place.rides)
