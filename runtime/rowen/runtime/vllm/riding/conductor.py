"""What rides in an engine's steps, what is worked through between them, and what while it is idle.

All of it on the thread that computes. Whatever goes wrong here ends the riding and nothing else: the engine serves on.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from rowen.runtime.coserve.learner import Learner, Upcoming
from rowen.runtime.coserve.lease import engine_lease
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.next_tokens import NextTokens
from rowen.runtime.coserve.planning.planner import TOO_DEAR, TOO_LONG, Planner
from rowen.runtime.coserve.seat.seat import Departure
from rowen.runtime.coserve.task import Result, TaskUnsuitable
from rowen.runtime.coserve.training.files import ModelFilesChanged
from rowen.runtime.log import get_logger
from rowen.runtime.vllm.riding.boarded import Boarded
from rowen.runtime.vllm.riding.composition import load_of, stepping
from rowen.runtime.vllm.riding.first_tokens import FirstTokens, waited_seconds
from rowen.runtime.vllm.riding.tally import Tally
from rowen.runtime.vllm.riding.waker import Waker
from rowen.runtime.vllm.riding.windows import Windows

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput

log = get_logger()

_TELL_SECONDS = 1.0
_NOTICED_SECONDS = 0.0005
"""To take a large task in, or to free one, takes longer."""


@dataclass(frozen=True)
class _Step:
    load: Load
    begun: float
    held: bool
    """Prompts were held back from it."""
    end_seconds: float
    """After its begin, for parts that run after it."""
    seat_seconds: float
    """Of the seat's thread, when it began."""


class Conductor:
    """`begin` and `finish` (or `fail`) around each step, `between` after it, `idle` while there is none.

    Nothing that it is made of may raise into the engine: the first error ends the riding, the second the watching.
    """

    def __init__(
        self, planner: Planner, boarded: Boarded | None, waker: Waker, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Where nothing can ride it only watches, so that the planner knows what steps take."""
        self.waker = waker
        self._planner = planner
        self._learner = boarded.learner if boarded else None
        self._guests = boarded.guests if boarded else None
        self._windows = Windows(boarded.hooks, planner) if boarded else None
        self._files = boarded.files if boarded else None
        self._tally = Tally()
        self._lease = engine_lease()
        self._clock = clock
        self._step: _Step | None = None
        self._part_seconds = 0.0
        self._overran = False
        """The step took some of the time of the parts after it."""
        self._only_held = False
        """Prompts are held back from the step, and nothing else was there."""
        self._first_tokens = FirstTokens()
        self._next_tokens = NextTokens(planner.token_pace)
        self._told = clock()
        self._watching = True
        self._ended: str | None = None

    def arrived(self, request: str, wall_seconds: float, prompt_tokens: int) -> None:
        """A request was taken in, which came at that time of the system's clock."""
        self._attempt(self._arrived, request, wall_seconds, prompt_tokens)

    def begin(self, output: "SchedulerOutput") -> None:
        """The step is about to be computed: decides what rides, and has it ride."""
        self.waker.rest()
        self._attempt(self._begin, output)

    def finish(self) -> None:
        """The step was computed, and its tokens are chosen."""
        self._attempt(self._finish)

    def fail(self) -> None:
        """It was not."""
        self._attempt(self._give_up_step)

    def between(self, may_go_on: Callable[[], bool]) -> None:
        """The step's tokens are on their way. Parts run for as long as was planned, or until they may no more."""
        if self._part_seconds > 0:
            self._attempt(self._run_between, may_go_on)
        elif self._only_held:
            # As while idle, until it is time to ask again whether they are.
            self._only_held = False
            self._attempt(self._run_alone, may_go_on, self._clock() + self._planner.idle_part_seconds)

    def idle(self, may_go_on: Callable[[], bool]) -> None:
        """The engine has nothing to do. Parts run until they may no more, or there are none."""
        self._attempt(self._run_idle, may_go_on)

    def end(self, reason: str) -> None:
        """Nothing rides any more; the agent and the guests are told."""
        if self._ended is not None:
            return
        self._ended = reason
        self._learner, self._step, self._part_seconds = None, None, 0.0
        # No prompt waits for riders' sake any more.
        self._planner.riders_wait = False
        if self._windows is not None:
            self._windows.end()
        if self._files is not None:
            self._files.close()
            self._files = None
        if self._guests is not None:
            self._guests.tell(self._tally.sums(), reason)
            # What still comes is not taken, nor kept.
            self._guests.take()

    def close(self) -> None:
        """The engine ends."""
        self.end("the engine ends")
        self._stop_watching()
        if self._guests is not None:
            self._guests.close()
            self._guests = None

    def _attempt(self, work: Callable[..., None], *arguments: object) -> None:
        if not self._watching:
            return
        try:
            with torch.inference_mode():
                work(*arguments)
        except ModelFilesChanged as error:
            log.error("nothing rides in this engine any more; it serves on", reason=str(error))
            self.end(str(error))
        except Exception as error:
            if self._ended is not None:
                self._stop_watching()
            log.exception("nothing rides in this engine any more; it serves on")
            self.end(f"riding failed in the engine: {type(error).__name__}")

    def _stop_watching(self) -> None:
        self._watching = False
        # Rows are planned without it.
        self._planner.token_pace.due_in = math.inf

    def _arrived(self, request: str, wall_seconds: float, prompt_tokens: int) -> None:
        self._first_tokens.arrived(request, self._clock() - waited_seconds(wall_seconds), prompt_tokens)

    def _begin(self, output: "SchedulerOutput") -> None:
        self._step, self._part_seconds = None, 0.0
        held, self._planner.holds = self._planner.holds, False
        self._follow(output)
        self._only_held = held and output.total_num_scheduled_tokens == 0
        if output.total_num_scheduled_tokens == 0:
            return
        load = load_of(output)
        learner = self._working()
        if learner is None:
            self._planner.plan(load, 0, has_parts=False)
            self._step = _Step(load, self._clock(), held, math.inf, self._seat_worked())
        else:
            self._step = self._with_riders(learner, load, held)

    def _with_riders(self, learner: Learner, load: Load, held: bool) -> _Step:
        upcoming = self._come_in(learner, forward=False)
        part_rider = upcoming.guest if upcoming is not None else None
        waiting = learner.waiting_tokens
        rider = learner.window_guest() if waiting else None
        least_seconds = self._least_seconds(upcoming)
        plan = self._planner.plan(load, waiting, upcoming is not None, least_seconds, rider, part_rider)
        self._part_seconds = plan.part_seconds
        # What has no room may not keep out what others have, until it has been patient.
        passed = rider if plan is TOO_DEAR else part_rider if plan is TOO_LONG else None
        if passed is not None:
            learner.pass_over(passed)
        # To make a window is riders' doing, too.
        begun, seat_seconds = self._clock(), self._seat_worked()
        if plan.ride_tokens > 0 and self._windows is not None:
            self._check_files()
            load = self._windows.arm(learner, load, rider, plan.ride_tokens)
        return _Step(load, begun, held, plan.end_seconds, seat_seconds)

    def _come_in(self, learner: Learner, *, forward: bool) -> Upcoming | None:
        """What the next part belongs to, with tasks that have come or gone: requests wait for that, too."""
        begun = self._clock()
        self._take(learner)
        upcoming = learner.upcoming(forward)
        ended = self._clock()
        if ended - begun > _NOTICED_SECONDS:
            self._planner.rider_seconds += ended - begun
            self._first_tokens.ridden(begun, ended)
            self._tally.came(ended - begun)
            self._look()
        return upcoming

    def _working(self) -> Learner | None:
        """The learner; None: nothing rides, or what does stands still, and no prompt waits for its sake."""
        if self._learner is None or self._lease.holds():
            return self._learner
        self._planner.riders_wait = False
        return None

    def _follow(self, output: "SchedulerOutput") -> None:
        """Who has ended, and who gets a token."""
        self._first_tokens.begin(output)
        for seconds, rider_seconds in self._next_tokens.begin(output.finished_req_ids, stepping(output)):
            self._planner.observe_tpot(seconds, rider_seconds)
        self._look()

    def _look(self) -> None:
        """When the next token is due."""
        self._planner.token_pace.due_in = self._next_tokens.due_in(self._clock())

    def _finish(self) -> None:
        now, step = self._clock(), self._step
        if step is None:
            self._give_up_step()
            return
        self._step = None
        left = step.end_seconds - (now - step.begun)
        self._overran = left < self._part_seconds
        self._part_seconds = min(self._part_seconds, left)
        tokens = self._windows.settle() if self._windows is not None else 0
        load = replace(step.load, ride_tokens=0, ride_context=0) if tokens is None else step.load
        self._tally.step(load, now - step.begun, tokens or 0)
        self._count_seat(now, step, self._observe(load, step, now) if tokens is not None else 0.0)
        self._next_tokens.finish(now, self._planner.rider_seconds)
        for waited, ridden in self._first_tokens.finish(now):
            self._planner.observe_first_token(waited, ridden)
        self._look()
        self._deliver()
        self._tell(now)

    def _observe(self, load: Load, step: _Step, now: float) -> float:
        """Seconds of the step that are riders' doing."""
        by_riders = self._planner.observe(load, now - step.begun)
        self._tally.added(by_riders)
        # Who came before a step that prompts were held back from would have been in it: all of it is riders' doing.
        waited = now - step.begun if step.held else by_riders
        if waited > 0:
            self._first_tokens.ridden(now - waited, now)
        return waited

    def _count_seat(self, now: float, step: _Step, by_riders: float) -> None:
        """What the seat's thread computed in a step is riders' doing, too, also where nobody rode in it.

        It is taken to have been on this thread's core.
        """
        seconds = min(now - step.begun, self._seat_worked() - step.seat_seconds) - by_riders
        if seconds > _NOTICED_SECONDS:
            self._planner.rider_seconds += seconds
            self._tally.added(seconds)
            self._first_tokens.ridden(now - seconds, now)

    def _seat_worked(self) -> float:
        return self._guests.worked_seconds if self._guests is not None else 0.0

    def _give_up_step(self) -> None:
        self._step, self._part_seconds = None, 0.0
        if self._windows is not None:
            self._windows.give_up()

    def _run_between(self, may_go_on: Callable[[], bool]) -> None:
        until, self._part_seconds = self._clock() + self._part_seconds, 0.0
        # That the first one has time was planned, or that it runs all the same; unless the step took of it.
        fits = not self._overran
        while (learner := self._working()) is not None and may_go_on():
            upcoming, left = learner.upcoming(forward=False), until - self._clock()
            if upcoming is None or not (fits or 0 < left >= self._least_seconds(upcoming)):
                break
            if not self._run_part(learner, upcoming, left, forward=False):
                break
            fits = False
        self._look()
        self._tell(self._clock())

    def _least_seconds(self, upcoming: Upcoming | None) -> float:
        """What the smallest part of it takes; 0 where there is none."""
        if upcoming is None:
            return 0.0
        return self._planner.predictor.least_part_seconds(upcoming.phase, upcoming.guest)

    def _run_idle(self, may_go_on: Callable[[], bool]) -> None:
        self._run_alone(may_go_on, math.inf)
        self._tell(self._clock(), now_or_never=True)

    def _run_alone(self, may_go_on: Callable[[], bool], until: float) -> None:
        first = True
        while (learner := self._working()) is not None and (left := until - self._clock()) > 0 and may_go_on():
            upcoming = self._come_in(learner, forward=True)
            least_seconds = self._least_seconds(upcoming)
            if left < least_seconds and not first:
                break
            first = False
            seconds = min(left, self._planner.idle_seconds(least_seconds))
            ran = upcoming is not None and self._run_part(learner, upcoming, seconds, forward=True)
            self._planner.riders_wait = ran
            if not ran:
                break
            self._tell(self._clock())
        # Of a task that learns nothing there is no part.
        self._deliver()

    def _run_part(self, learner: Learner, upcoming: Upcoming, seconds: float, forward: bool) -> bool:
        tokens = self._planner.part_tokens(upcoming.phase, max(0.0, seconds), upcoming.guest)
        self._check_files()
        part = learner.part(tokens, forward=forward)
        if part is None:
            return False
        begun = self._clock()
        part.run()
        ended = self._clock()
        took = ended - begun
        self._first_tokens.ridden(begun, ended)
        self._planner.observe_part(part.phase, part.tokens, part.context, took, upcoming.guest)
        self._tally.part(part, took)
        self._deliver()
        return True

    def _check_files(self) -> None:
        if self._files is not None:
            self._files.check(self._clock())

    def _take(self, learner: Learner) -> None:
        for event in self._guests.take() if self._guests is not None else ():
            if isinstance(event, Departure):
                learner.drop(event.guest)
                self._planner.drop(event.guest)
                continue
            try:
                learner.add(event.guest, event.task)
            except TaskUnsuitable as refusal:
                self._answer(event.guest, refusal)

    def _deliver(self) -> None:
        for guest, answer in self._learner.finished() if self._learner is not None else ():
            self._answer(guest, answer)

    def _answer(self, guest: int, answer: Result | TaskUnsuitable) -> None:
        if self._guests is not None:
            self._guests.deliver(guest, answer)

    def _tell(self, now: float, now_or_never: bool = False) -> None:
        if self._guests is None or (not now_or_never and now - self._told < _TELL_SECONDS):
            return
        self._told = now
        self._guests.tell(self._tally.sums(), self._ended)
