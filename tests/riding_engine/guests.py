"""What an engine's seat is, without anybody in it."""

from itertools import count

from rowen.crds.ride.messages import StepSums
from rowen.runtime.coserve.seat.seat import Arrival, Departure
from rowen.runtime.coserve.task import Result, Task, TaskUnsuitable


class Guests:
    def __init__(self) -> None:
        self._numbers = count()
        self._events: list[Arrival | Departure] = []
        self.answers: dict[int, Result | TaskUnsuitable] = {}
        self.sums = StepSums()
        self.ended: str | None = None
        self.closed = False
        self.worked_seconds = 0.0

    def arrive(self, task: Task) -> int:
        guest = next(self._numbers)
        self._events.append(Arrival(guest, task))
        return guest

    def depart(self, guest: int) -> None:
        self._events.append(Departure(guest))

    def take(self) -> list[Arrival | Departure]:
        taken, self._events = self._events, []
        return taken

    def deliver(self, guest: int, answer: Result | TaskUnsuitable) -> None:
        self.answers[guest] = answer

    def tell(self, sums: StepSums, ended: str | None) -> None:
        self.sums, self.ended = sums, ended

    def close(self) -> None:
        self.closed = True
