"""A node's stages: one pass at a time on each, backward passes first, forward passes in order."""

from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from mixing.setup import OFFLOAD_PART, OVERRUN_PART, STAGES
from mixing.workload import Workload

from rowen.scheduler.lemix.batching import BatchLimits, batch_step
from rowen.scheduler.lemix.stage_memory import MemoryStep, memory_step


@dataclass(slots=True)
class Job:
    """A batch of requests, or a training task, on its way."""

    tasks: tuple[int, ...]
    work: float
    tokens: float
    trains: bool
    held: list[bool] = field(default_factory=lambda: [False] * STAGES)
    """Stages whose memory it has."""


@dataclass(slots=True)
class Stage:
    """One GPU."""

    running: bool = False
    forwards: deque[Job] = field(default_factory=deque)
    backwards: deque[Job] = field(default_factory=deque)
    used: float = 0.0
    """Tokens."""
    waits_since: float | None = None
    """Its next forward pass, for memory."""
    busy_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Start:
    """A pass that begins now."""

    stage: int
    job: Job
    backward: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Look:
    """Nothing begins before this time."""

    time: float


class Node:
    """Knows nothing of other nodes, nor of plans."""

    def __init__(self, workload: Workload, batches: BatchLimits, *, memory_aware: bool) -> None:
        self._workload, self._batches, self._memory_aware = workload, batches, memory_aware
        self._queue: deque[tuple[int, float]] = deque()
        self.stages = [Stage() for _ in range(STAGES)]

    def put(self, task: int, now: float) -> None:
        """At the end of the queue."""
        self._queue.append((task, now))

    @property
    def busy_seconds(self) -> float:
        """Of all stages."""
        return sum(stage.busy_seconds for stage in self.stages)

    def begin(self, at: int, now: float) -> Start | Look | None:
        """The next pass of a stage, if it has one and is free."""
        stage = self.stages[at]
        if stage.running:
            return None
        if stage.backwards:
            return self._start(at, stage.backwards.popleft(), backward=True, extra=0.0)
        if at == 0 and not stage.forwards:
            look = self._form_batch(now)
            if look is not None:
                return look
        return self._forward(at, now) if stage.forwards else None

    def end(self, start: Start) -> bool:
        """A pass is over: the job moves on. Whether it has finished."""
        at, job = start.stage, start.job
        self.stages[at].running = False
        if start.backward:
            self._release(at, job)
            if at:
                self.stages[at - 1].backwards.append(job)
            return at == 0
        if at < STAGES - 1:
            self.stages[at + 1].forwards.append(job)
        elif job.trains:
            self.stages[at].backwards.append(job)
        else:
            for stage in range(STAGES):
                self._release(stage, job)
            return True
        return False

    def _form_batch(self, now: float) -> Look | None:
        if not self._queue:
            return None
        tasks = self._workload.tasks
        head = [tasks[number] for number, _ in islice(self._queue, self._batches.size + 1)]
        decision = batch_step(head, self._queue[0][1], now, self._batches)
        if not decision.count:
            return None if decision.until is None else Look(decision.until)
        numbers = tuple(self._queue.popleft()[0] for _ in range(decision.count))
        work = float(sum(tasks[number].work for number in numbers))
        tokens = float(sum(tasks[number].length for number in numbers))
        self.stages[0].forwards.append(Job(numbers, work, tokens, tasks[numbers[0]].trains))
        return None

    def _forward(self, at: int, now: float) -> Start | Look:
        stage, machine = self.stages[at], self._workload.machine
        job = stage.forwards[0]
        extra = 0.0
        if self._memory_aware:
            waited = 0.0 if stage.waits_since is None else now - stage.waits_since
            step = memory_step(stage.used, job.tokens, waited, machine.memory).step
            if step is MemoryStep.WAIT:
                stage.waits_since = now - waited
                return Look(now + machine.memory.check_seconds)
            stage.waits_since = None
            job.held[at] = step is MemoryStep.RUN
            extra = 0.0 if job.held[at] else machine.moving_seconds(job.tokens, OFFLOAD_PART)
        else:
            job.held[at] = True
            over = min(job.tokens, max(0.0, stage.used + job.tokens - machine.memory.peak))
            extra = machine.moving_seconds(over, OVERRUN_PART)
        if job.held[at]:
            stage.used += job.tokens
        return self._start(at, stage.forwards.popleft(), backward=False, extra=extra)

    def _start(self, at: int, job: Job, *, backward: bool, extra: float) -> Start:
        machine = self._workload.machine
        noise = float(self._workload.noise[job.tasks[0], int(backward), at])
        if backward and not job.held[at]:
            extra += machine.moving_seconds(job.tokens, OFFLOAD_PART)
        seconds = machine.pass_seconds(job.work, backward=backward, noise=noise) + extra
        stage = self.stages[at]
        stage.running = True
        stage.busy_seconds += seconds
        return Start(at, job, backward, seconds)

    def _release(self, at: int, job: Job) -> None:
        if job.held[at]:
            self.stages[at].used -= job.tokens
            job.held[at] = False
