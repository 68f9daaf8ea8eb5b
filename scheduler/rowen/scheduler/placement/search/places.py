"""The places that a pass has found for jobs so far: what was refused once is not searched for again."""

from collections.abc import Mapping

from rowen.scheduler.history import History
from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.promise import Promise
from rowen.scheduler.monitor.backoff import EVERY_NODE, Backoff
from rowen.scheduler.placement.constraints import Constraints
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.search.choice import choose
from rowen.scheduler.placement.search.request import Choice, Request
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView

Shape = tuple[int, int, Appetite | None, Promise, int, Constraints, tuple[tuple[str, float], ...]]
"""What decides whether a job fits, back-offs apart.

Devices, memory for itself and of the pool, what it is promised, priority, constraints, rates.
"""


class Places:
    """Requests of jobs in one pass, and the choices for them."""

    def __init__(self, fleet: Fleet, history: History, policy: Policy) -> None:
        self.fleet, self.policy = fleet, policy
        self._history = history
        self._refused: dict[Shape, Choice] = {}

    def request(self, job: JobView, backoffs: Mapping[str, Backoff]) -> Request:
        """What the job asks for; its margin covers the predictor's error for its class. `backoffs`: its, by node."""
        history = self._history
        known = {
            place: backoff for place, backoff in backoffs.items() if place == EVERY_NODE or place in self.fleet.number
        }
        rates = history.rates.get(job.workload, {})
        return Request(job, history.promise(job.workload, job.sla), known, rates, history.appetite(job))

    def choice(self, request: Request) -> Choice:
        """Where the job goes. A request like one that was refused before is refused alike: capacity only shrinks."""
        job, rates = request.job, tuple(request.rates.items())
        shape = job.devices, job.memory, request.appetite, request.promise, job.priority, job.constraints, rates
        found = self._refused.get(shape) if not request.backoffs else None
        if found is None:
            found = choose(request, self.fleet, self.policy)
            if found.chosen is None and not request.backoffs:
                self._refused[shape] = found
        return found
