"""The engine's side of riding, as the thread that computes sees it: tasks come in, results go out, nothing waits."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from rowen.crds.ride.messages import EngineState, StepSums
from rowen.runtime.coserve.seat.host import Host
from rowen.runtime.coserve.seat.reception import Reception, clipped
from rowen.runtime.coserve.task import Result, Task, TaskUnsuitable

_END_SECONDS = 1.0
_MOST_EVENTS = 64
"""That wait to be taken, before only those are added that whoever takes them cannot do without."""


@dataclass(frozen=True)
class Arrival:
    """A guest's next task; the former one is done."""

    guest: int
    task: Task


@dataclass(frozen=True)
class Departure:
    """A guest has gone; its number does not come again."""

    guest: int


class Seat:
    """Takes guests in. The methods neither block nor raise, and are called by one thread."""

    def __init__(self, agent: str, host: Host, wake: Callable[[], None]) -> None:
        """`agent`: path of its ride socket for engines.

        `wake` is called on another thread when there is something to take.
        """
        self._events: list[Arrival | Departure] = []
        self._taken: set[int] = set()
        """Guests of whom something was taken, and not yet that they have gone."""
        self._lock = threading.Lock()
        """Of the two, held for a moment."""
        self._wake = wake
        self._state = EngineState(sums=StepSums())
        self._reception = Reception(agent, host, self, lambda: self._state)
        self._thread = threading.Thread(target=self._reception.run, name="rowen-seat", daemon=True)
        self._thread.start()

    def take(self) -> list[Arrival | Departure]:
        """What has happened since it was asked last, in order."""
        with self._lock:
            taken, self._events = self._events, []
            self._taken.update(event.guest for event in taken)
            self._taken.difference_update(event.guest for event in taken if isinstance(event, Departure))
        return taken

    def deliver(self, guest: int, answer: Result | TaskUnsuitable) -> None:
        """Answers the guest's task. For a guest that has gone it does nothing."""
        self._reception.answer(guest, answer)

    @property
    def worked_seconds(self) -> float:
        """CPU time that it took so far, of a thread that may share the engine's core."""
        return self._reception.worked_seconds

    def tell(self, sums: StepSums, ended: str | None) -> None:
        """What the agent is told, as often as it is to hear it. With `ended` all guests are let go, for good."""
        first = ended is not None and self._state.ended is None
        self._state = EngineState(sums=sums, ended=None if ended is None else clipped(ended))
        if first:
            self._reception.ring()

    def close(self) -> None:
        """Lets all guests go and ends the thread; waits for it for a second at most."""
        self._reception.close()
        self._thread.join(_END_SECONDS)

    def arrived(self, guest: int, task: Task) -> None:
        """For the reception."""
        with self._lock:
            self._events.append(Arrival(guest, task))
        self._wake()

    def departed(self, guest: int) -> None:
        """For the reception. Its task is not kept for an engine that takes nothing for a while (it is paused)."""
        with self._lock:
            self._events = [event for event in self._events if event.guest != guest]
            # Of whom nothing was taken nothing has to be known.
            if guest in self._taken or len(self._events) < _MOST_EVENTS:
                self._events.append(Departure(guest))
        self._wake()

    def freed(self) -> None:
        """For the reception, and those who take memory back for it."""
        self._wake()
