"""A job that says what a test wants it to say."""

import ctypes
import fcntl
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from rowen.runtime.coserve.task import Target
from rowen.runtime.coserve.wire.line import receive, send
from rowen.runtime.coserve.wire.memory import GIVEN
from rowen.runtime.coserve.wire.messages import (
    FROM_ENGINE,
    LONGEST_MESSAGE,
    Hello,
    Refusal,
    ResultHeader,
    TaskHeader,
    Welcome,
    Working,
)

SIZES = {Target.QUERY: (8, 8), Target.VALUE: (8, 4)}
RANK = 2
PLACES = [(0, Target.QUERY), (1, Target.VALUE)]
FLOATS = RANK * (8 + 8) + RANK * (8 + 4)
LIBC = ctypes.CDLL(None, use_errno=True)
FALLOC_FL_KEEP_SIZE = 1


def memory(numbers: Any, seals: int = GIVEN, *, size: int | None = None, behind: int = 0) -> int:
    """Memory with those numbers in it, or with a hole of that size, and so many bytes taken `behind` its end."""
    file = os.memfd_create("stranger", os.MFD_ALLOW_SEALING)
    if size is None:
        os.write(file, numpy.ascontiguousarray(numbers).tobytes())
    else:
        os.ftruncate(file, size)
        if behind and LIBC.fallocate64(file, FALLOC_FL_KEEP_SIZE, ctypes.c_long(size), ctypes.c_long(behind)):
            raise OSError(ctypes.get_errno(), "fallocate")
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    return file


def weights(value: float = 1.0) -> Any:
    return numpy.full(FLOATS, value, dtype=numpy.float32)


def sequences(lengths: Sequence[int] = (3, 2), tokens: int = 5) -> Any:
    return numpy.array([*lengths, *range(tokens), *range(1, tokens + 1)], dtype=numpy.int64)


class Stranger:
    """Its end of the pair. What it sends, it closes."""

    def __init__(self, line: socket.socket, digest: str) -> None:
        line.settimeout(60)
        self.line = line
        self._digest = digest

    def __enter__(self) -> "Stranger":
        return self

    def __exit__(self, *_: object) -> None:
        self.line.close()

    def hello(self, **changes: Any) -> None:
        hello = Hello(
            model=self._digest, precision="Float32", rank=RANK, scaling=2.0, places=PLACES, hears_working=True
        )
        self.say(hello.model_copy(update=changes))

    def task(self, files: Sequence[int] | None = None, **changes: Any) -> None:
        header = TaskHeader(
            number=7, adapted=True, fresh=True, sequences=2, tokens=5, loss_scale=1.0, gradients=True
        ).model_copy(update=changes)
        self.say(header, [memory(weights()), memory(sequences())] if files is None else files)

    def say(self, message: Any, files: Sequence[int] = ()) -> None:
        self.send(message.model_dump_json().encode(), files)

    def send(self, data: bytes, files: Sequence[int] = ()) -> None:
        try:
            send(self.line, data, files)
        finally:
            for file in files:
                os.close(file)

    def hear(self) -> tuple[Welcome | Refusal | Working | ResultHeader, list[int]] | None:
        """The next message; None: it was let go."""
        message = receive(self.line, LONGEST_MESSAGE)
        return None if message is None else (FROM_ENGINE.validate_json(message.data), message.descriptors)

    def welcomed(self) -> "Stranger":
        self.hello()
        heard = self.hear()
        assert heard is not None
        assert isinstance(heard[0], Welcome)
        return self

    def refused(self) -> Refusal:
        """What it was told before it was let go."""
        heard = self.hear()
        assert heard is not None
        assert isinstance(heard[0], Refusal)
        assert self.hear() is None
        return heard[0]


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits until it is."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)
