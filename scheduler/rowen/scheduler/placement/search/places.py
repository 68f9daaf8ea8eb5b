"""The places that a pass has found for jobs so far: what was refused once is not searched for again."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from rowen.scheduler.history import History
from rowen.scheduler.model.promise import Promise
from rowen.scheduler.model.rider import ride_class
from rowen.scheduler.monitor.backoff import EVERY_NODE, Backoff
from rowen.scheduler.placement.constraints import VOLUME_CLAIM, Constraints
from rowen.scheduler.placement.eligibility import exclusion
from rowen.scheduler.placement.fleet.fleet import Fleet, Needs
from rowen.scheduler.placement.fleet.seats import Seats
from rowen.scheduler.placement.search.choice import choose
from rowen.scheduler.placement.search.evaluation import BACK_OFF, backed_off
from rowen.scheduler.placement.search.request import Candidate, Choice, Request
from rowen.scheduler.placement.search.seating import Seating, has_engine, may_ride, seated
from rowen.scheduler.placement.spreading import Spreading
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView

Shape = tuple[int, int, int, Needs | None, Promise, int, Constraints, tuple[tuple[str, float], ...], Hashable]
"""What decides whether a job fits, and what is told where it does not, back-offs apart.

Devices, memory for itself, most of the pool and what it does with that, what it is promised, priority, constraints,
rates, and how it is to lie among others that are there.
"""


_WORTH_A_COPY = 2.0
"""So many times as much a job has to make beside an engine, with a copy of the model, as in one."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Where a job goes."""

    choice: Choice
    not_seated: str = ""
    """Why not into an engine; empty where it goes there, or there is none to think of."""


class Places:
    """Requests of jobs in one pass, and the choices for them. `standing`: the jobs that have a node."""

    def __init__(
        self, fleet: Fleet, history: History, policy: Policy, standing: Iterable[tuple[JobView, str]] = ()
    ) -> None:
        self.fleet, self.policy = fleet, policy
        self.spreading = Spreading(fleet, standing)
        self._seats = Seats(fleet)
        self._history = history
        self._refused: dict[tuple[Shape, frozenset[str]], Choice] = {}
        """By shape, and the nodes that are kept away from."""

    def request(self, job: JobView, backoffs: Mapping[str, Backoff]) -> Request:
        """What the job asks for; its margin covers the predictor's error for its class. `backoffs`: its, by node."""
        history = self._history
        known = {
            place: backoff for place, backoff in backoffs.items() if place == EVERY_NODE or place in self.fleet.number
        }
        rates = history.rates.get(job.workload, {})
        away = self.spreading.barred(job, softly=False)
        promise, seat = (history.promise(of, job.sla) for of in (job.workload, ride_class(job.workload)))
        return Request(job, promise, known, rates, history.appetite(job), away, seat)

    def settled(self, request: Request) -> Settled:
        """Where the job goes, in an engine or beside one.

        In one, if it can: there it needs no copy of the model, and has part of a busy engine's time too. But by itself
        where it would make more than twice as much.
        """
        seating = self.seat(request)
        seat = seating.candidate
        if seat is None:
            return Settled(self.choice(request), seating.refusal)
        choice = self.choice(request)
        if choice.chosen is not None and _made(choice.chosen) > _WORTH_A_COPY * _made(seat):
            return Settled(choice, f"{seat.place} would give {seat.prediction.fraction:.2f} ({seat.product})")
        return Settled(Choice((seat,)))

    def seat(self, request: Request) -> Seating:
        """The seat that suits the job best: as its template would like it to lie among others, else as it must."""
        if not all(rule.must for rule in request.job.spread):
            found = seated(self.liked(request), self.fleet, self._seats)
            if found.candidate is not None:
                return found
        return seated(request, self.fleet, self._seats)

    def has_engine(self, job: JobView) -> bool:
        """Whether there is an engine that could compute the job, with a free seat or without."""
        return has_engine(job, self._seats)

    def may_ride(self, job: JobView, request: Callable[[JobView], Request]) -> bool:
        """Whether there is a seat for the job. `request`: what it asks for, made where there may be one."""
        return may_ride(job, self._seats) and self.seat(request(job)).candidate is not None

    def choice(self, request: Request) -> Choice:
        """Where the job goes: as its template would like it to lie among others, else as it must."""
        if not all(rule.must for rule in request.job.spread):
            found = self._choice(self.liked(request), softly=True)
            if found.chosen is not None:
                return found
        return self._choice(request, softly=False)

    def liked(self, request: Request) -> Request:
        """The same where what its template only prefers has to hold, too."""
        return replace(request, away=self.spreading.barred(request.job, softly=True))

    def _choice(self, request: Request, *, softly: bool) -> Choice:
        """A request like one that was refused before is refused alike: capacity only shrinks."""
        job, rates = request.job, tuple(request.rates.items())
        lies = self.spreading.gist(job, softly=softly) if request.away else None
        needs = self.fleet.needs(request.appetite) if request.appetite is not None else None
        own = job.devices, job.memory, job.pool, needs
        shape = *own, request.promise, job.priority, job.constraints, rates, lies
        found = self._known(shape, request.backoffs)
        if found is None:
            found = choose(request, self.fleet, self.policy)
            if found.chosen is None:
                self._refused[shape, frozenset(request.backoffs)] = found
            return found
        return self._retold(found, request) if job.constraints.volumes or request.backoffs else found

    def _known(self, shape: Shape, backoffs: Mapping[str, Backoff]) -> Choice | None:
        """What one like it was told; also without its back-offs, unless it would hear of one of them."""
        found = self._refused.get((shape, frozenset(backoffs)))
        if found is not None or not backoffs:
            return found
        freer = self._refused.get((shape, frozenset()))
        return None if freer is None or _tells_of(freer, backoffs) else freer

    def _retold(self, choice: Choice, request: Request) -> Choice:
        """With its own back-offs and volumes named: the first of its shape may be of another namespace."""
        return Choice(tuple(self._named(candidate, request) for candidate in choice.candidates))

    def _named(self, candidate: Candidate, request: Request) -> Candidate:
        if candidate.refusal.startswith(BACK_OFF):
            return candidate._replace(refusal=backed_off(request, candidate.node))
        if candidate.refusal.startswith(VOLUME_CLAIM):
            view = self.fleet.views[self.fleet.number[candidate.node]]
            return candidate._replace(refusal=exclusion(view, request.job.constraints))
        return candidate


def _made(candidate: Candidate) -> float:
    """What a job makes there, in devices of the type that suits it best."""
    return candidate.prediction.fraction * candidate.rate


def _tells_of(refused: Choice, backoffs: Mapping[str, Backoff]) -> bool:
    """Whether one of the places that it tells of is on a node with a back-off."""
    return EVERY_NODE in backoffs or any(candidate.node in backoffs for candidate in refused.candidates)
