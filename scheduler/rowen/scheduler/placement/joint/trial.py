"""What comes of placing some jobs, tried on the fleet and taken back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rowen.scheduler.placement.fleet.claims import Claim
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.search.choice import claimed, fitting
from rowen.scheduler.placement.search.request import Candidate, Request
from rowen.scheduler.policy import Policy


@dataclass(frozen=True, slots=True)
class Result:
    """Who has which place."""

    found: Mapping[int, Candidate]
    """Of each job that has one, by its number."""

    @property
    def total(self) -> float:
        """What all harvest in addition, less what those who were there lose; in devices."""
        return sum(candidate.gain for candidate in self.found.values())


def tried(requests: Sequence[Request], given: Mapping[int, Candidate], fleet: Fleet, policy: Policy) -> Result:
    """The jobs with a `given` place have it, then each of the others its best, in order. The fleet stays as it is."""
    found: dict[int, Candidate] = {}
    claims: list[Claim] = []
    for number in sorted(range(len(requests)), key=lambda number: number not in given):
        request = requests[number]
        best = given.get(number) or next(iter(fitting(request, fleet, policy)), None)
        if best is not None:
            found[number] = best
            claims.append(claimed(request, best))
            fleet.add(claims[-1])
    for claim in reversed(claims):
        fleet.remove(claim)
    return Result(found)
