"""The thread that talks to the agent and to the guests of an engine."""

import contextlib
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Protocol

from rowen.crds.ride.messages import MOST_SEATS, EngineState
from rowen.runtime.coserve.seat.admission import Unwelcome
from rowen.runtime.coserve.seat.agent_line import AgentLine
from rowen.runtime.coserve.seat.disposal import Disposal
from rowen.runtime.coserve.seat.guest import Gone, Guest
from rowen.runtime.coserve.seat.host import Host
from rowen.runtime.coserve.task import Result, Task, TaskUnsuitable
from rowen.runtime.failure import WorkerError
from rowen.runtime.log import get_logger
from rowen.runtime.tuning.fingerprint import model_digest

log = get_logger()

_LONGEST_WAIT_SECONDS = 1.0
_REST_SECONDS = 0.1
"""After a failure."""
_WORKING_SECONDS = 60.0
"""Between two words to guests that wait for an answer."""
_LENT_SECONDS = 60.0
"""So long a guest has an answer's memory at most."""
_WANTED_SECONDS = 2.0
"""The same while another one has a task in the engine: it may wait for that memory. A guest reads an answer at once."""
_LONGEST_REASON = 256


def clipped(reason: str) -> str:
    """As long as the agent hears it."""
    return reason[:_LONGEST_REASON]


class Listener(Protocol):
    """Who hears of what happens; called on this thread."""

    def arrived(self, guest: int, task: Task) -> None:
        """The guest's next task."""

    def departed(self, guest: int) -> None:
        """It has gone."""

    def freed(self) -> None:
        """Memory of answers is free again, for which a task may wait. Called on any thread."""


class Reception:
    """Guests by number, the agent, and what the computing thread wants said. `run` is the thread."""

    def __init__(self, agent: str, host: Host, listener: Listener, state: Callable[[], EngineState]) -> None:
        """`state`: what the agent is to know at present."""
        self._host = host
        self._listener = listener
        self._state = state
        self._guests: dict[int, Guest] = {}
        self._pods: dict[str, int] = {}
        """The last guest of each pod."""
        self._disposals: dict[str, Disposal] = {}
        """Of pods that ride, or have left something behind."""
        self._numbers = count()
        self._digest = ""
        self._answers: deque[tuple[int, Result | TaskUnsuitable]] = deque()
        self._closing = False
        self._clock: int | None = None
        """Of the thread's CPU time."""
        self._failure: str | None = None
        """Why it takes nobody in."""
        self._working_at = time.monotonic() + _WORKING_SECONDS
        self._worked = (0, 0.0)
        """By then: tokens of windows, seconds of parts."""
        self._selector = selectors.DefaultSelector()
        self._agent = AgentLine(agent, self._selector, Disposal(), self._receive, self._dismiss)
        self._bell_lock = threading.Lock()
        bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._bell: int | None = bell
        self._selector.register(bell, selectors.EVENT_READ, lambda _: os.eventfd_read(bell))

    def answer(self, guest: int, answer: Result | TaskUnsuitable) -> None:
        """Has a task answered soon. Called on any thread, as are the next two."""
        self._answers.append((guest, answer))
        self.ring()

    def close(self) -> None:
        """Ends the thread soon."""
        self._closing = True
        self.ring()

    def ring(self) -> None:
        """Has the thread look at everything soon."""
        with self._bell_lock:
            if self._bell is not None:
                os.eventfd_write(self._bell, 1)

    @property
    def worked_seconds(self) -> float:
        """CPU time of the thread so far; 0 where it has not begun, or has ended. May be asked on any thread."""
        with contextlib.suppress(OSError):
            return 0.0 if self._clock is None else time.clock_gettime(self._clock)
        return 0.0

    def run(self) -> None:
        """Works until it is closed. Where it cannot go on, its guests go, and it only tells the agent why."""
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        try:
            self._attempt(self._read_model)
            while not self._closing:
                self._attempt(self._turn)
        finally:
            self._leave()

    def _attempt(self, work: Callable[[], None]) -> None:
        """Does it; what fails is why nothing rides from then on."""
        try:
            work()
        except Exception as error:
            if self._failure is None:
                log.exception("nothing rides in this engine any more: its seat failed")
                self._failure = f"its seat failed: {type(error).__name__}"
            # What has failed once may fail on and on.
            time.sleep(_REST_SECONDS)

    def _read_model(self) -> None:
        try:
            self._digest = model_digest(self._host.model)
        except WorkerError as error:
            self._failure = f"the served model's files cannot be read: {error.message}"
            log.warning("nothing rides", reason=self._failure)

    def _present_state(self) -> EngineState:
        state = self._state()
        ended = state.ended if self._failure is None else state.ended or clipped(self._failure)
        guests = sorted(pod for pod, number in self._pods.items() if number in self._guests)
        return EngineState(sums=state.sums, ended=ended, guests=tuple(guests))

    def _turn(self) -> None:
        state, now = self._present_state(), time.monotonic()
        if state.ended is not None:
            self._let_all_go(state.ended)
        until = self._agent.tick(state, now)
        self._answer_all()
        self._recall_old(now)
        self._say_working(state, now)
        guests = self._guests.values()
        until = min([until, *(guest.speaks_until for guest in guests if guest.speaks_until is not None)])
        until = min([until, *(guest.rests_until for guest in guests if not self._is_heard(guest))])
        wait = min(max(0.0, until - now), _LONGEST_WAIT_SECONDS)
        for key, events in self._selector.select(wait):
            # An earlier one of these may have let it go.
            if key.fd in self._selector.get_map():
                key.data(events)
        self._drop_silent(time.monotonic())
        for guest in self._guests.values():
            self._watch(guest)

    def _receive(self, line: socket.socket, pod: str) -> None:
        """A pod rides once: whoever holds its former line has no place in the engine any more."""
        former = self._guests.get(self._pods.get(pod, -1))
        if former is not None:
            self._let_go(former, Unwelcome("the pod has come in anew", retry=True))
        disposal = self._disposal(pod)
        guest = Guest(next(self._numbers), line, self._host, disposal, self._listener.freed, time.monotonic())
        ended = self._present_state().ended
        if ended is not None:
            guest.let_go(Unwelcome(f"nothing rides in the engine any more: {ended}", retry=True))
        elif len(self._guests) >= MOST_SEATS:
            guest.let_go(Unwelcome("all seats of the engine are taken", retry=True))
        elif disposal.full:
            guest.let_go(Unwelcome("what the pod has left behind cannot be closed", retry=True))
        else:
            self._guests[guest.number] = guest
            self._pods = {name: number for name, number in self._pods.items() if number in self._guests}
            self._pods[pod] = guest.number
            self._watch(guest)

    def _dismiss(self, pod: str) -> None:
        """The agent says that the pod rides no more, whoever holds its line."""
        guest = self._guests.get(self._pods.get(pod, -1))
        if guest is not None:
            self._let_go(guest, Unwelcome("its process has ended, or its pod has no seat any more", retry=True))

    def _watch(self, guest: Guest) -> None:
        """Has what it says heard, unless it rests, and what it is told sent."""
        events = 0 if time.monotonic() < guest.rests_until else selectors.EVENT_READ
        events |= selectors.EVENT_WRITE if guest.has_unsent else 0
        known = self._selector.get_map().get(guest.line)
        if known is None and events:
            self._selector.register(guest.line, events, partial(self._serve, guest))
        elif known is not None and not events:
            self._selector.unregister(guest.line)
        elif known is not None and known.events != events:
            self._selector.modify(guest.line, events, partial(self._serve, guest))

    def _is_heard(self, guest: Guest) -> bool:
        known = self._selector.get_map().get(guest.line)
        return known is not None and bool(known.events & selectors.EVENT_READ)

    def _say_working(self, state: EngineState, now: float) -> None:
        """To all that wait, where the engine has got on with anybody's task: they have their turns."""
        if now < self._working_at:
            return
        self._working_at = now + _WORKING_SECONDS
        before, self._worked = self._worked, (state.sums.forward_tokens, state.sums.riding_seconds)
        if self._worked != before:
            for guest in list(self._guests.values()):
                self._attend(guest, guest.say_working)

    def _disposal(self, pod: str) -> Disposal:
        """The pod's; those of which nothing is left are forgotten."""
        self._disposals = {
            name: disposal
            for name, disposal in self._disposals.items()
            if not disposal.idle or self._pods.get(name) in self._guests
        }
        return self._disposals.setdefault(pod, Disposal())

    def _serve(self, guest: Guest, events: int) -> None:
        def serve() -> None:
            if events & selectors.EVENT_WRITE:
                guest.flush()
            if events & selectors.EVENT_READ:
                task = guest.hear(self._digest)
                if task is not None:
                    self._listener.arrived(guest.number, task)

        self._attend(guest, serve)

    def _answer_all(self) -> None:
        while self._answers:
            self._answer_next()
            # The guest has a copy, and nobody the original any more.
            self._listener.freed()

    def _answer_next(self) -> None:
        number, answer = self._answers.popleft()
        guest = self._guests.get(number)
        if guest is not None:
            self._attend(guest, partial(guest.answer, answer))
            self._recall(guest)

    def _recall_old(self, now: float) -> None:
        """Takes back what was lent for long: a guest that does not come with its next task may keep others waiting."""
        # One that waits has no loan.
        wanted = any(guest.waits for guest in self._guests.values())
        for guest in list(self._guests.values()):
            if guest.loan is not None and now - guest.loan.since >= (_WANTED_SECONDS if wanted else _LENT_SECONDS):
                self._attend(guest, guest.recall)

    def _recall(self, last: Guest) -> None:
        """Takes back what others were lent, the oldest first, where all of it is too much.

        What is on its way back does not count: whoever holds it up would have others lose what they have not read yet.
        """
        loans = [(guest.loan, guest) for guest in self._guests.values() if guest.loan is not None]
        lent = sum(loan.size_bytes for loan, _ in loans)
        for loan, guest in sorted(loans, key=lambda each: each[0].since):
            if lent <= self._host.most_lent_bytes:
                return
            if guest is not last:
                lent -= loan.size_bytes
                self._attend(guest, guest.recall)

    def _attend(self, guest: Guest, work: Callable[[], None]) -> None:
        """Does something for a guest; what goes wrong with it is its own affair."""
        try:
            work()
        except Gone:
            self._let_go(guest)
            return
        except Unwelcome as farewell:
            self._let_go(guest, farewell)
            return
        except Exception as error:
            log.exception("a guest is let go")
            self._let_go(guest, Unwelcome(f"the engine failed with it: {type(error).__name__}", retry=True))
            return
        self._watch(guest)

    def _drop_silent(self, now: float) -> None:
        for guest in list(self._guests.values()):
            if guest.speaks_until is not None and now >= guest.speaks_until:
                self._let_go(guest, Unwelcome("no hello came", retry=True))

    def _let_all_go(self, reason: str) -> None:
        for guest in list(self._guests.values()):
            self._let_go(guest, Unwelcome(f"nothing rides in the engine any more: {reason}", retry=True))

    def _let_go(self, guest: Guest, farewell: Unwelcome | None = None) -> None:
        if farewell is not None:
            log.info("a guest is let go", guest=guest.number, reason=farewell.message, retry=farewell.retry)
        del self._guests[guest.number]
        if self._selector.get_map().get(guest.line) is not None:
            self._selector.unregister(guest.line)
        guest.let_go(farewell)
        self._listener.departed(guest.number)

    def _leave(self) -> None:
        for guest in list(self._guests.values()):
            self._let_go(guest, Unwelcome("the engine ends", retry=True))
        self._agent.close()
        self._selector.close()
        with self._bell_lock:
            bell, self._bell = self._bell, None
            if bell is not None:
                os.close(bell)
