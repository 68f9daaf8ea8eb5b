"""Chooses the places of a few jobs of one priority together, where that harvests more than the queue's order does."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest

from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.joint.assignment import assigned
from rowen.scheduler.placement.joint.options import Budget, Option, option, options_of
from rowen.scheduler.placement.joint.trial import Result, tried
from rowen.scheduler.placement.search.request import Candidate, Choice, Request
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobKey, JobView

MOST_JOBS = 32
MOST_OPTIONS = 640
"""Of all that are looked at together in a pass: see `docs/scheduling.md` for what they take."""
YIELD_SECONDS = 300.0
"""A job that is older is never left waiting for others of its priority."""
WORTH_WAITING = 0.05
"""Part of what is harvested that has to come of it before anybody is left waiting for it."""
_NEARLY = 0.005
"""Part of the optimum by which its answer may be off where somebody would be left waiting: that is much quicker."""
_ROUNDS = 3
_LEAST_MORE = 0.01
"""In devices: for less nobody gives way."""
_ROUNDING = 1e-6
"""In devices: what is smaller is rounding."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where some jobs go; the others have their best place behind them, in the queue's order."""

    choices: Mapping[JobKey, Choice] = field(default_factory=dict)
    told: Mapping[JobKey, str] = field(default_factory=dict)
    """What there is to say to those who have less than by the queue's order."""

    def in_order(self, jobs: Sequence[JobView]) -> Sequence[JobView]:
        """The order in which they are placed."""
        return sorted(jobs, key=lambda job: job.uid not in self.choices) if self.choices else jobs


NO_PLAN = Plan()
Found = tuple[Result, Collection[int]]
"""What comes of a plan, and the numbers of the jobs that are in it."""


class Joint:
    """Plans for one pass.

    A plan has one newcomer on each device, and beside each claim: there gains add up. Who comes second does so behind
    the plan, in the queue's order. So nothing is said of two newcomers on a device, nor of those who share it being
    worth more elsewhere.
    """

    def __init__(self, fleet: Fleet, policy: Policy, now: float) -> None:
        self._fleet, self._policy, self._now = fleet, policy, now
        self._budget = Budget(MOST_OPTIONS)

    def plan(self, jobs: Sequence[JobView], request: Callable[[JobView], Request]) -> Plan:
        """For jobs of one priority in the queue's order; nothing where they are too many, or it is not better.

        Where one of them asks to lie in a certain way among others, options depend on each other: nothing, too.
        """
        among = any(not rule.alone for job in jobs for rule in job.spread)
        if not 1 < len(jobs) <= MOST_JOBS or among or self._budget.looks <= 0:
            return NO_PLAN
        requests = [request(job) for job in jobs]
        options = options_of(requests, self._fleet, self._policy, self._budget)
        if options is None or len({one.number for one in options}) <= 1:
            return NO_PLAN
        queue = tried(requests, {}, self._fleet, self._policy)
        if _most(options) <= queue.total + _LEAST_MORE:
            return NO_PLAN
        self._budget.options -= len(options)
        best, given = self._best(requests, options, queue)
        return _plan(jobs, queue, best, given)

    def _best(self, requests: Sequence[Request], options: Sequence[Option], queue: Result) -> Found:
        """What is best, and whose places in it are chosen together."""
        firsts = self._firsts(queue)
        options, placed = _with(options, firsts), set(queue.found)
        best: Found = queue, ()
        found = self._solved(requests, options, placed, firsts)
        if found is not None and found[0].total > queue.total + _LEAST_MORE:
            best = found
        old = {number for number in placed if self._now - requests[number].job.created > YIELD_SECONDS}
        if old != placed:
            found = self._solved(requests, options, old, firsts, _NEARLY)
            more = max(_LEAST_MORE, WORTH_WAITING * abs(best[0].total))
            if found is not None and found[0].total > best[0].total + more:
                best = found
        return best

    def _solved(
        self,
        requests: Sequence[Request],
        options: Sequence[Option],
        stay: Collection[int],
        firsts: Collection[int],
        near: float = 0.0,
    ) -> Found | None:
        """What is best where these have a place, or a part of so much from it; None where nothing is found.

        Who by the queue's order is the first on his devices has a place of the plan. Who comes second there may lose it
        by the plan, and is then taken into it.
        """
        names = {one.candidate.node for one in options}
        slots = {name: self._fleet.node(self._fleet.number[name]).free_slots for name in names}
        keep = {number for number in stay if number in firsts}
        for _ in range(_ROUNDS):
            chosen = assigned(options, keep, slots, near)
            if chosen is None:
                return None
            given = {number: one.candidate for number, one in chosen.items()}
            result = tried(requests, given, self._fleet, self._policy)
            lost = {number for number in stay if number not in result.found}
            if not lost:
                return result, given.keys()
            keep |= lost
        return None

    def _firsts(self, queue: Result) -> dict[int, Option]:
        """The places by the queue's order that do not touch those of jobs before them."""
        found: dict[int, Option] = {}
        taken: set[int | str] = set()
        for number, candidate in sorted(queue.found.items()):
            node = self._fleet.node(self._fleet.number[candidate.node])
            one = option(number, candidate, [node.devices[id_] for id_ in candidate.devices])
            if taken.isdisjoint(one.touched):
                found[number] = one
                taken |= one.touched
        return found


def _most(options: Sequence[Option]) -> float:
    """No plan harvests more: than all jobs in the best place of each, or than all that they make of as many devices."""
    jobs: dict[int, Candidate] = {}
    devices: dict[tuple[str, str], float] = {}
    for one in options:
        best = one.candidate
        jobs.setdefault(one.number, best)
        for id_ in best.devices:
            place = best.node, id_
            devices[place] = max(devices.get(place, 0.0), best.gain / len(best.devices))
    wanted = sum(len(best.devices) for best in jobs.values())
    return min(sum(max(best.gain, 0.0) for best in jobs.values()), sum(nlargest(wanted, devices.values())))


def _with(options: Sequence[Option], firsts: Mapping[int, Option]) -> list[Option]:
    """The options, these among them: so what the queue's order comes to is never out of reach."""
    known = {(one.number, one.touched) for one in options}
    others = [one for number, one in firsts.items() if (number, one.touched) not in known]
    return sorted((*options, *others), key=lambda one: (one.number, one.candidate.rank))


def _plan(jobs: Sequence[JobView], queue: Result, best: Result, given: Collection[int]) -> Plan:
    choices: dict[JobKey, Choice] = {}
    told: dict[JobKey, str] = {}
    more = best.total - queue.total
    for number, job in enumerate(jobs):
        ours, theirs = best.found.get(number), queue.found.get(number)
        gave_way = theirs is not None and (ours is None or ours.gain < theirs.gain - _ROUNDING)
        if number in given and ours is not None:
            choices[job.uid] = Choice((ours, theirs) if gave_way and theirs is not None else (ours,))
        if gave_way and theirs is not None:
            told[job.uid] = _told(theirs, ours, more)
    return Plan(choices, told)


def _told(theirs: Candidate, ours: Candidate | None, more: float) -> str:
    place = f"; by the queue's order it would have {theirs.place} ({theirs.prediction.fraction:.2f}), and "
    if ours is not None:
        return f"{place}here the jobs of its priority harvest {more:.2f} devices more together"
    oldest = f"no job waits for that when it is older than {YIELD_SECONDS:.0f} s"
    return f"{place}waits because the jobs of its priority harvest {more:.2f} devices more together so: {oldest}"
