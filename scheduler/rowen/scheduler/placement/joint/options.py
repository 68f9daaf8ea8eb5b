"""The places that each of a few jobs could take, before any of the others has one."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from math import comb

import numpy as np

from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.fleet.states import DeviceState, claims_on
from rowen.scheduler.placement.search.evaluation import Devices, evaluate
from rowen.scheduler.placement.search.request import Candidate, Request
from rowen.scheduler.placement.search.sets import best_sets
from rowen.scheduler.placement.search.singles import allowed_rows, best_devices
from rowen.scheduler.policy import Policy

Nodes = list[list[int]]
"""Rows of devices, node by node."""
_LOOKS = 4
"""So many places are looked at for each option that there may be: most sets of a node are not aligned."""


class Budget:
    """What a pass may still work out. No clock says so: the same snapshot has the same decision."""

    def __init__(self, most: int) -> None:
        self.options = most
        """Of which plans are made."""
        self.looks = _LOOKS * most
        """Places that are looked at, whether they become options, and whether a plan is made of these."""


@dataclass(frozen=True, slots=True)
class Option:
    """One place of one job. Its gain is exact as long as no other newcomer touches what it touches."""

    number: int
    """The job's place among those that are asked about."""
    candidate: Candidate
    touched: frozenset[int | str]
    """The rows of its devices, and the keys of the claims that have a part of them."""


def option(number: int, candidate: Candidate, devices: Sequence[DeviceState]) -> Option:
    """The place as an option of that job."""
    keys = (claim.key for claim in claims_on(devices))
    return Option(number, candidate, frozenset((*(state.row for state in devices), *keys)))


def options_of(requests: Sequence[Request], fleet: Fleet, policy: Policy, budget: Budget) -> list[Option] | None:
    """The options of all jobs, of each the best first; None where the budget has not so many, or not so many looks.

    Of a job on one device as many of its best places as all of them want devices: among empty devices no others can be
    of use, since one of these stays free whatever the others do. Of a job in lockstep every set, unless none was found
    for it by the search.
    """
    wanted, found = sum(request.job.devices for request in requests), list[Option]()
    able = [_able(request, fleet) if request.job.devices > 1 else [] for request in requests]
    if _sets_of(requests, able) > budget.looks:
        return None
    for number, (request, nodes) in enumerate(zip(requests, able, strict=True)):
        places: Iterable[Devices] = ()
        if request.job.devices == 1:
            places = [(state,) for state in best_devices(request, fleet, wanted)]
        elif nodes and best_sets(request, fleet, policy):
            places = _sets(request.job.devices, nodes, fleet)
        looked_at = [(evaluate(request, fleet, devices, policy), devices) for devices in places]
        budget.looks -= len(looked_at)
        fitting = [option(number, candidate, devices) for candidate, devices in looked_at if not candidate.refusal]
        found += sorted(fitting, key=lambda one: one.candidate.rank)
        if len(found) > budget.options:
            return None
    return found


def _sets_of(requests: Sequence[Request], able: Sequence[Nodes]) -> int:
    """How many sets jobs in lockstep have together."""
    return sum(
        comb(len(rows), request.job.devices) for request, nodes in zip(requests, able, strict=True) for rows in nodes
    )


def _sets(count: int, nodes: Nodes, fleet: Fleet) -> Iterator[Devices]:
    for rows in nodes:
        yield from combinations([fleet.device(row) for row in rows], count)


def _able(request: Request, fleet: Fleet) -> Nodes:
    """The rows that take one more and have the job's memory, of each node that has enough of them."""
    columns, allowed = fleet.settled(), allowed_rows(request, fleet)
    able = columns.takes & (columns.free >= request.job.memory)
    rows = np.flatnonzero(able if allowed is None else able & allowed).tolist()
    nodes = (list(members) for _, members in groupby(rows, key=columns.node_of))
    return [members for members in nodes if len(members) >= request.job.devices]
