"""The way to an engine, whichever it is at present."""

import select
import socket
import time
from typing import Literal

import structlog
import torch
from pydantic import ValidationError

from rowen.crds.job.worker import RIDE_BROKEN, RIDE_LOST, RIDE_REFUSED, ExitCode
from rowen.runtime.coserve.ride_link import STAY_SECONDS, RideLink
from rowen.runtime.coserve.task import Pair, Place, Result, Sequence
from rowen.runtime.coserve.wire.layout import sequence_pieces
from rowen.runtime.coserve.wire.line import Message, close_all, receive, send
from rowen.runtime.coserve.wire.memory import GIVEN, read, written
from rowen.runtime.coserve.wire.messages import (
    FROM_ENGINE,
    LONGEST_MESSAGE,
    MOST_SEQUENCES,
    Hello,
    Refusal,
    ResultHeader,
    TaskHeader,
    Welcome,
    Working,
)
from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.riding.stand_in import RidingAdapter

log = structlog.get_logger()

_LOST_SECONDS = 120.0
"""So long it looks for an engine."""
_FIRST_DELAY_SECONDS, _LONGEST_DELAY_SECONDS = 0.1, 2.0
_WELCOME_SECONDS = 30.0
"""An engine may be about to read its model's files."""
_RESULT_SECONDS = 600.0
"""So long an engine may have better things to do than its riders' tasks. After that the job does better elsewhere."""
_MOST_LOSSES = 3
"""Engines that may be lost over one task."""

_ANOTHER_QUESTION = "the engine answered another question"


class _LostError(Exception):
    """There is no engine now; the message says why."""


class _TurnedAwayError(_LostError):
    """The engine took its leave, or had other use for the memory of its answer before it was read."""


class Ride:
    """Asks engines for losses and gradients, one after the other when they come and go."""

    def __init__(
        self, link: RideLink, model: str, precision: Literal["Float32", "BFloat16"], adapter: RidingAdapter
    ) -> None:
        """`model`: digest of the base model."""
        self._link = link
        self._hello = Hello(
            model=model,
            precision=precision,
            rank=adapter.layout.rank,
            scaling=adapter.scaling,
            places=list(adapter.layout.places),
            hears_working=True,
        )
        self._adapter = adapter
        self._line: socket.socket | None = None
        self._sent: torch.Tensor | None = None
        """The weights that the engine has. They are compared: not everything that changes a tensor counts it."""
        self._number = 0
        self._gradients = torch.empty(adapter.layout.size_bytes // torch.float32.itemsize)

    def losses(self, sequences: tuple[Sequence, ...], *, adapted: bool) -> Result:
        """Losses with the adapter as it is now, or of the base model alone. Raises `WorkerError`."""
        return self._answer(sequences, 1.0, adapted=adapted, gradients=False)

    def gradients(self, sequences: tuple[Sequence, ...], loss_scale: float) -> Result:
        """Losses and the gradients of their scaled sum; these are there until the next call. Raises `WorkerError`."""
        return self._answer(sequences, loss_scale, adapted=True, gradients=True)

    def close(self) -> None:
        """Gives the seat back."""
        self._leave()
        self._link.close()

    def _answer(self, sequences: tuple[Sequence, ...], loss_scale: float, *, adapted: bool, gradients: bool) -> Result:
        if len(sequences) > MOST_SEQUENCES:
            raise _refused(f"a batch has {len(sequences)} sequences, and an engine takes {MOST_SEQUENCES} at once")
        self._number += 1
        self._link.stay()
        delay, losses, turned, until = _FIRST_DELAY_SECONDS, 0, 0, None
        while True:
            line, sent = None, False
            try:
                line = self._line or self._board()
                self._send(line, sequences, loss_scale, adapted=adapted, gradients=gradients)
                # Not before: an engine that takes the job in and no task is none.
                sent, until = True, None
                return self._result(line, gradients=gradients)
            except (_LostError, OSError) as error:
                if line is not None and isinstance(error, TimeoutError):
                    # It is there, and it is no fault of the task's.
                    raise _lost(f"the engine has not answered for {_RESULT_SECONDS:.0f} s") from error
                polite = isinstance(error, _TurnedAwayError)
                turned += sent and polite
                losses += sent and not polite
                self._leave()
                log.info("there is no engine now", reason=str(error))
                reason, now = str(error), time.monotonic()
            until = until or now + _LOST_SECONDS
            if losses >= _MOST_LOSSES:
                raise _refused(f"{losses} engines were lost over the same task: {reason}")
            if turned >= _MOST_LOSSES:
                # What others do there is no reason never to ride again.
                raise _lost(f"{reason}, {turned} times")
            if now >= until:
                away = f"no engine for {_LOST_SECONDS:.0f} s: {reason}"
                if losses or turned:
                    # This count ends with the attempt; the operator has one over attempts.
                    raise WorkerError(RIDE_BROKEN, f"one was lost over the task, and {away}", ExitCode.RETRY)
                raise _lost(away)
            time.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY_SECONDS)

    def _board(self) -> socket.socket:
        """Raises `_LostError`, `OSError`, `WorkerError`."""
        line = self._line = self._link.join()
        line.settimeout(_WELCOME_SECONDS)
        send(line, self._hello.model_dump_json().encode())
        said, message = _heard(line)
        close_all(message.descriptors)
        if not isinstance(said, Welcome):
            raise _LostError(_ANOTHER_QUESTION)
        log.info("rides in an engine")
        return line

    def _send(
        self,
        line: socket.socket,
        sequences: tuple[Sequence, ...],
        loss_scale: float,
        *,
        adapted: bool,
        gradients: bool,
    ) -> None:
        """Raises `OSError`, `WorkerError`."""
        weights = self._adapter.copied()
        header = TaskHeader(
            number=self._number,
            adapted=adapted,
            fresh=self._sent is None or not torch.equal(weights, self._sent),
            sequences=len(sequences),
            tokens=sum(len(sequence.tokens) for sequence in sequences),
            loss_scale=loss_scale,
            gradients=gradients,
        )
        memory: list[int] = []
        try:
            try:
                if header.fresh:
                    memory.append(written("rowen-adapter", [weights.numpy()], GIVEN))
                memory.append(written("rowen-sequences", sequence_pieces(sequences), GIVEN))
            except OSError as error:
                # The job's own trouble, and not the engine's.
                raise WorkerError("Failed", f"no memory for a task: {error}", ExitCode.RETRY) from error
            line.settimeout(_RESULT_SECONDS)
            send(line, header.model_dump_json().encode(), memory)
        finally:
            close_all(memory)
        self._sent = weights

    def _answered(self, line: socket.socket) -> tuple[ResultHeader, Message]:
        """What the engine answers to a task. Raises `_LostError`, `OSError`, `WorkerError`."""
        while True:
            self._await(line)
            said, message = _heard(line)
            if isinstance(said, ResultHeader):
                return said, message
            close_all(message.descriptors)
            if not isinstance(said, Working):
                raise _LostError(_ANOTHER_QUESTION)

    def _await(self, line: socket.socket) -> None:
        """Until the engine says something; agents that come meanwhile hear of this job. Raises `TimeoutError`."""
        until, poll = time.monotonic() + _RESULT_SECONDS, select.poll()
        poll.register(line, select.POLLIN)
        while not poll.poll(1000 * STAY_SECONDS):
            if time.monotonic() >= until:
                raise TimeoutError
            self._link.stay()

    def _result(self, line: socket.socket, *, gradients: bool) -> Result:
        """Raises `_LostError`, `OSError`, `WorkerError`."""
        said, message = self._answered(line)
        try:
            if said.number != self._number or len(message.descriptors) != gradients:
                raise _LostError(_ANOTHER_QUESTION)
            found: dict[Place, Pair] = {}
            if gradients:
                buffer = self._gradients.numpy()
                read(message.descriptors[0], buffer)
                found = self._adapter.layout.pairs(buffer)
        except EOFError as error:
            raise _TurnedAwayError("the engine took its answer back before it was read") from error
        finally:
            close_all(message.descriptors)
        return Result(said.number, said.loss_sum, said.learned_tokens, said.correct_tokens, found)

    def _leave(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line = self._sent = None


def _heard(line: socket.socket) -> tuple[Welcome | Working | ResultHeader, Message]:
    """The next message. Raises `_LostError`, `OSError`, and `WorkerError` when the engine never wants the job."""
    message = receive(line, LONGEST_MESSAGE)
    if message is None:
        raise _LostError("the engine hung up")
    try:
        said = FROM_ENGINE.validate_json(message.data)
    except ValidationError as error:
        close_all(message.descriptors)
        raise _LostError("the engine's message cannot be understood") from error
    if not isinstance(said, Refusal):
        return said, message
    close_all(message.descriptors)
    raise _TurnedAwayError(said.message) if said.retry else _refused(said.message)


def _lost(why: str) -> WorkerError:
    return WorkerError(RIDE_LOST, why, ExitCode.RETRY)


def _refused(why: str) -> WorkerError:
    return WorkerError(RIDE_REFUSED, why, ExitCode.RETRY)
