"""A job that rides, as the seat's thread knows it."""

import contextlib
import os
import socket
import time
from collections.abc import Callable

from pydantic import ValidationError

from rowen.runtime.coserve.seat.admission import Unwelcome, admit
from rowen.runtime.coserve.seat.disposal import Disposal
from rowen.runtime.coserve.seat.host import Host
from rowen.runtime.coserve.seat.loan import Loan
from rowen.runtime.coserve.task import Adapter, Pair, Place, Result, Task, TaskUnsuitable
from rowen.runtime.coserve.wire.layout import AdapterLayout, read_sequences, sequences_bytes
from rowen.runtime.coserve.wire.line import Message, receive, send
from rowen.runtime.coserve.wire.memory import LENT, mapped, written
from rowen.runtime.coserve.wire.messages import (
    FROM_JOB,
    LONGEST_MESSAGE,
    Hello,
    Refusal,
    ResultHeader,
    TaskHeader,
    Welcome,
    Working,
)

HELLO_SECONDS = 10.0
"""So long a guest may take to say what it trains."""
_SEAT_PART = 20
"""Of the time for which a guest has tasks the seat's thread computes for it no more than this part; that it waits,
above all for the engine, does not count. Nothing else bounds how fast tasks come whose work takes no time, as one
without labels."""


class Gone(Exception):  # noqa: N818
    """The guest has closed its end."""


class Guest:
    """Its connection and what it has said. What it says is hostile until checked."""

    def __init__(
        self,
        number: int,
        line: socket.socket,
        host: Host,
        disposal: Disposal,
        freed: Callable[[], None],
        now: float,
    ) -> None:
        """`disposal`: of its pod. `freed`: called on any thread when an answer's memory is free again.

        `now`: seconds, monotonic.
        """
        line.setblocking(False)
        self.number = number
        self.line = line
        self.speaks_until: float | None = now + HELLO_SECONDS
        """By when it has to have said hello; None: it has."""
        self._host = host
        self._disposal = disposal
        self._freed = freed
        self._layout: AdapterLayout | None = None
        self._scaling, self._hears_working = 0.0, False
        self._weights: dict[Place, Pair] | None = None
        self._task: Task | None = None
        """That is being worked through."""
        self.loan: Loan | None = None
        """The last result's memory."""
        self.rests_until = 0.0
        """It is not heard before; seconds, monotonic."""
        self._tasked_at = 0.0
        self._seat_seconds = 0.0
        """For which the seat's thread has worked on its task."""
        self._unsent: list[tuple[bytes, int | None]] = []
        """Messages for which there was no room. No task comes in while there are any, so their number has an end."""

    @property
    def waits(self) -> bool:
        """It has a task in the engine."""
        return self._task is not None

    @property
    def has_unsent(self) -> bool:
        """Something waits for room in its socket."""
        return bool(self._unsent)

    def hear(self, digest: str) -> Task | None:
        """Reads one message: its next task, if it is one. Raises `Unwelcome`, `Gone`."""
        if self._disposal.full:
            # What comes with the message would wait behind the rest.
            raise Unwelcome("what it was lent cannot be taken back, or what it sent not be closed", retry=True)
        try:
            message = receive(self.line, LONGEST_MESSAGE)
        except BlockingIOError:
            return None
        except OSError as error:
            raise Gone from error
        if message is None:
            raise Gone
        left, begun, worked = list(message.descriptors), time.monotonic(), time.thread_time()
        try:
            return self._understood(message, left, digest)
        finally:
            self._disposal.close(left)
            self._tasked_at, self._seat_seconds = begun, time.thread_time() - worked

    def answer(self, answer: Result | TaskUnsuitable) -> None:
        """Answers its task. Raises `Unwelcome`, `Gone`."""
        if isinstance(answer, TaskUnsuitable):
            raise Unwelcome(str(answer))
        if self._task is None or self._layout is None:
            return
        task, self._task = self._task, None
        worked = time.thread_time()
        header = ResultHeader(
            number=answer.number,
            loss_sum=answer.loss_sum,
            learned_tokens=answer.learned_tokens,
            correct_tokens=answer.correct_tokens,
        )
        try:
            if answer.gradients:
                file = written("rowen-gradients", self._layout.pieces(answer.gradients), LENT)
                self.loan = Loan(file, self._layout.size_bytes, task, self._freed)
        except OSError as error:
            raise Unwelcome(f"the engine has no memory for the gradients: {error.strerror}", retry=True) from error
        self._say(header.model_dump_json().encode(), self.loan.file if self.loan is not None else None)
        self._seat_seconds += time.thread_time() - worked
        self.rests_until = self._tasked_at + _SEAT_PART * self._seat_seconds

    def say_working(self) -> None:
        """Tells it so, while it waits for an answer. Raises `Gone`."""
        if self._hears_working and self._task is not None and not self._unsent:
            self._say(Working().model_dump_json().encode())

    def recall(self) -> None:
        """Takes back what it was lent. One that has read it does not notice. Raises `Unwelcome`."""
        if self._unsent:
            raise Unwelcome("others need the memory of an answer that it does not take", retry=True)
        self._take_back()

    def flush(self) -> None:
        """Sends what waits, as far as there is room. Raises `Gone`."""
        while self._unsent:
            data, memory = self._unsent[0]
            try:
                send(self.line, data, [] if memory is None else [memory])
            except BlockingIOError:
                return
            except OSError as error:
                raise Gone from error
            del self._unsent[0]

    def let_go(self, farewell: Unwelcome | None = None) -> None:
        """Closes the connection, with a word if it can be said, and gives all memory back. Never raises."""
        self._pass_over()
        if farewell is not None and not self._unsent:
            refusal = Refusal(message=farewell.message[:2048], retry=farewell.retry)
            with contextlib.suppress(OSError):
                send(self.line, refusal.model_dump_json().encode())
        self._take_back()
        with contextlib.suppress(OSError):
            # It notices now, however long closing takes.
            self.line.shutdown(socket.SHUT_RDWR)
        self._disposal.close([self.line.detach()])

    def _pass_over(self) -> None:
        """What it has asked for since: a line that is closed with something unread takes the farewell with it."""
        if self._disposal.full:
            # It is not closed for now, and what is unread is no descriptor of the engine's.
            return
        with contextlib.suppress(OSError):
            message = receive(self.line, LONGEST_MESSAGE)
            if message is not None:
                self._disposal.close(list(message.descriptors))

    def _understood(self, message: Message, left: list[int], digest: str) -> Task | None:
        """Takes out of `left` what it has closed."""
        if not message.whole:
            raise Unwelcome(f"a message has more than {LONGEST_MESSAGE} bytes")
        try:
            said = FROM_JOB.validate_json(message.data)
        except ValidationError as error:
            raise Unwelcome("a message cannot be understood") from error
        if isinstance(said, Hello):
            if left:
                raise Unwelcome(f"{len(left)} descriptors come with a hello")
            self._welcome(said, digest)
            return None
        return self._task_of(said, left)

    def _welcome(self, hello: Hello, digest: str) -> None:
        if self._layout is not None:
            raise Unwelcome("a second hello")
        self._layout = admit(hello, self._host, digest)
        self._scaling, self._hears_working = hello.scaling, hello.hears_working
        self.speaks_until = None
        self._say(Welcome().model_dump_json().encode())

    def _task_of(self, header: TaskHeader, left: list[int]) -> Task:
        """Raises `Unwelcome`."""
        if self._layout is None or self._task is not None or self._unsent:
            raise Unwelcome("a task before its time")
        if header.tokens > self._host.most_tokens:
            raise Unwelcome(f"a task of {header.tokens} tokens; the engine takes {self._host.most_tokens}")
        if len(left) != 1 + header.fresh:
            raise Unwelcome(f"{len(left)} descriptors come with a task")
        self._take_back()
        try:
            if header.fresh:
                # The former weights go first: there is memory for one adapter.
                self._weights = None
                self._weights = self._layout.pairs(_taken(left, self._layout.size_bytes))
            memory = _taken(left, sequences_bytes(header.sequences, header.tokens))
            sequences = read_sequences(memory, header.sequences, header.tokens)
        except ValueError as error:
            raise Unwelcome(str(error)) from error
        if header.adapted and self._weights is None:
            raise Unwelcome("a task without weights")
        pairs = self._weights if header.adapted and self._weights is not None else {}
        adapter = Adapter(scaling=self._scaling, pairs=pairs)
        task = Task(header.number, adapter, sequences, header.loss_scale, header.gradients)
        try:
            self._host.check(task)
        except TaskUnsuitable as error:
            raise Unwelcome(str(error)) from error
        self._task = task
        return task

    def _say(self, data: bytes, memory: int | None = None) -> None:
        self._unsent.append((data, memory))
        self.flush()

    def _take_back(self) -> None:
        if self.loan is not None:
            self._disposal.do(self.loan.take_back)
            self.loan = None


def _taken(left: list[int], size: int) -> memoryview:
    """Maps the first descriptor and closes it. Raises `ValueError`."""
    memory = mapped(left[0], size)
    # Known as memory by now, which nothing can hold up.
    os.close(left.pop(0))
    return memoryview(memory)
