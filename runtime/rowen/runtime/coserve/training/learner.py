"""The learner on a model's own files."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from weakref import ref

import torch
from typing_extensions import override

from rowen.runtime.coserve.learner import Learner, Part, Phase, Upcoming, Window
from rowen.runtime.coserve.task import Result, Task, TaskUnsuitable
from rowen.runtime.coserve.training.memory import (
    gradient_bytes,
    saved_bytes,
    saved_layers,
    task_bytes,
    task_workspace_bytes,
)
from rowen.runtime.coserve.training.model import Model
from rowen.runtime.coserve.training.parts import next_part
from rowen.runtime.coserve.training.way_forward import StepAhead
from rowen.runtime.coserve.training.window import RidingWindow
from rowen.runtime.coserve.training.work import Work


@dataclass(frozen=True)
class _Answer:
    """Gradients that a guest gets, or has; it may have gone by now."""

    size: int
    """Bytes."""
    original: ref[Result]
    task: ref[Task]
    """Who has a copy keeps it."""

    @property
    def held_bytes(self) -> int:
        """Of original and copy, as far as they may still be there."""
        return self.size * sum(each() is not None for each in (self.original, self.task))


class MachineLearner(Learner):
    """Has as many tasks in work as there is memory for; the others wait in the order in which they came.

    The same task has the same result up to rounding: how large its parts are decides in which order sums are made.
    """

    def __init__(self, model_folder: Path, memory_bytes: int, dtype: torch.dtype | None = None) -> None:
        """`dtype`: computed in it; None: in that of the model's files.

        Raises `ArchitectureUnsupported` for a model that it cannot work with.
        """
        self._model = Model.of(model_folder, dtype)
        self.copy_bytes = self._model.copy_bytes
        """Of `memory_bytes`, that its largest matrix takes where it is stored in another type."""
        self.memory_bytes = max(0, memory_bytes - self.copy_bytes)
        """That tasks may need, each."""
        self._waiting: deque[tuple[int, Task]] = deque()
        self._wanted: tuple[Task, tuple[int, int]] | None = None
        """The first that waits, and what it needs: it is asked for in each step."""
        self._works: dict[int, Work] = {}
        """By guest, the next one in turn first."""
        self._needs: dict[int, tuple[int, int]] = {}
        """By guest the bytes that its work holds, at most, and those that it takes while it runs."""
        self._answers: list[_Answer] = []
        """Those that may still be there, whatever their guests do: one may make giving back wait, and come anew."""
        self._riding: int | None = None
        """Whose window is out."""
        self._finished: list[tuple[int, Result | TaskUnsuitable]] = []

    @property
    def dtype(self) -> torch.dtype:
        """Computed in, and of what rides."""
        return self._model.weights.dtype

    @override
    def add(self, guest: int, task: Task) -> None:
        """Of a task that `check_task` has let pass; to look at all of it again would hold up the engine."""
        if guest in self._works or any(guest == other for other, _ in self._waiting):
            raise TaskUnsuitable("the job has a task in the engine already")
        self._waiting.append((guest, task))

    @override
    def drop(self, guest: int) -> None:
        self._waiting = deque((other, task) for other, task in self._waiting if other != guest)
        self._wanted = None
        self._finished = [(other, answer) for other, answer in self._finished if other != guest]
        self._forget(guest)

    @override
    def window_guest(self) -> int | None:
        self._admit()
        return next(self._in_phase({Phase.FORWARD}), None)

    @override
    def pass_over(self, guest: int) -> None:
        # Only for what it is about to do: whoever goes from windows to parts, or back, is the last one anyway.
        if guest in self._works:
            self._works[guest] = self._works.pop(guest)

    @override
    def window(self, most_tokens: int) -> Window | None:
        guest = self.window_guest()
        if guest is None or self._riding is not None:
            return None
        work, self._riding = self._works[guest], guest
        with torch.inference_mode():
            step = work.riding(most_tokens)
            forward = work.forward(step)
        return RidingWindow(forward, partial(self._rode, guest, work, step))

    @override
    def upcoming(self, forward: bool = True) -> Upcoming | None:
        guest = self._next(forward)
        phase = None if guest is None else self._works[guest].phase
        return None if guest is None or phase is None else Upcoming(guest, phase)

    @override
    def part(self, most_tokens: int, forward: bool = True) -> Part | None:
        guest = self._next(forward)
        if guest is None:
            return None
        work = self._works[guest]
        with torch.inference_mode():
            return next_part(work, self._model, most_tokens, partial(self._settle, guest, work))

    @override
    def finished(self) -> list[tuple[int, Result | TaskUnsuitable]]:
        found, self._finished = self._finished, []
        return found

    @property
    @override
    def waiting_tokens(self) -> int:
        self._admit()
        return sum(work.way.left for work in self._works.values())

    def _next(self, forward: bool) -> int | None:
        """Whose part is next. What cannot ride comes first: it makes room, and the rest may ride yet."""
        self._admit()
        guests = self._in_phase({Phase.HEAD, Phase.BACKWARD})
        guest = next(guests, None)
        if guest is None and forward:
            guest = next(self._in_phase({Phase.FORWARD}), None)
        return guest

    def _in_phase(self, phases: set[Phase]) -> Iterator[int]:
        # A window that is out is of the guest's state as it is.
        return (guest for guest, work in self._works.items() if work.phase in phases and guest != self._riding)

    def _admit(self) -> None:
        """Takes waiting tasks in work, as far as there is memory."""
        architecture, dtype = self._model.architecture, self.dtype
        while self._waiting:
            guest, task = self._waiting[0]
            need = self._need(task)
            answers = self._answer_bytes()
            spare = self._spare_bytes(need) - answers
            # A task by itself was checked to have enough.
            if spare < 0 and (self._works or answers):
                return
            self._waiting.popleft()
            self._wanted = None
            # Half of the memory is left to others: while one is on its way back, another one may ride.
            saved = saved_layers(task, architecture, dtype, min(spare, self.memory_bytes // 2 - sum(need)))
            with torch.inference_mode():
                self._works[guest] = work = Work(task, self._model, saved)
            self._needs[guest] = need[0] + saved_bytes(task, architecture, dtype, saved), need[1]
            self._settle(guest, work)

    def _need(self, task: Task) -> tuple[int, int]:
        """As in `_needs`, without what is kept beyond what has to be."""
        if self._wanted is None or self._wanted[0] is not task:
            architecture = self._model.architecture
            need = task_bytes(task, architecture, self.dtype), task_workspace_bytes(task, architecture)
            self._wanted = task, need
        return self._wanted[1]

    def _spare_bytes(self, need: tuple[int, int]) -> int:
        """What memory is left beside those in work with the task in work, too; negative: there is not enough."""
        # One part runs at a time, whoever's it is.
        held, workspaces = zip(need, *self._needs.values(), strict=True)
        left: int = self.memory_bytes - sum(held) - max(workspaces)
        return left

    def _answer_bytes(self) -> int:
        """Of the gradients that guests get or have, and of those on their way back."""
        self._answers = [answer for answer in self._answers if answer.held_bytes]
        return sum(answer.held_bytes for answer in self._answers)

    def _rode(self, guest: int, work: Work, step: StepAhead, through: bool) -> None:
        """A window's end; by then its guest may have gone."""
        self._riding = None
        if through and self._works.get(guest) is work:
            work.way.went(step)
            self._settle(guest, work)

    def _settle(self, guest: int, work: Work) -> None:
        """Work was done: it is the next one's turn; what has ended is told."""
        if self._works.get(guest) is not work:
            return
        self.pass_over(guest)
        if work.phase is None:
            result = work.result()
            self._finished.append((guest, result))
            self._answers.append(_Answer(gradient_bytes(work.task), ref(result), ref(work.task)))
            self._forget(guest)

    def _forget(self, guest: int) -> None:
        self._works.pop(guest, None)
        self._needs.pop(guest, None)
