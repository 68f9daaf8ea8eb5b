"""How far a job has got by when, layer by layer: an iteration under load may take longer than a run."""

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from coserving.reports import Report

MARKS_ENV = "ROWEN_BENCHMARK_MARKS"
"""Path of the file, for who works."""
_MARK = struct.Struct("<dddd")


class MarkWriter:
    """Writes a mark after each piece of work."""

    def __init__(self, path: Path) -> None:
        """Goes on where there are marks."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.units = 0.0
        """Of work so far: what an iteration has of them does not change."""
        self.online_seconds = 0.0
        """That an engine has worked for requests so far."""
        self.held = 0.0
        """Steps so far that prompts were held back from."""

    def worked(self, units: float) -> None:
        """Some more."""
        self.units += units
        os.write(self._file, _MARK.pack(time.monotonic(), self.units, self.online_seconds, self.held))


@dataclass(frozen=True)
class Marks:
    """In order of time, each of shape [marks]."""

    seconds: np.ndarray
    """Monotonic."""
    units: np.ndarray
    online_seconds: np.ndarray
    held: np.ndarray

    @classmethod
    def read(cls, path: Path) -> Self:
        """All that were written. Raises `RuntimeError` where there is none."""
        content = path.read_bytes() if path.exists() else b""
        table = np.frombuffer(content[: len(content) // _MARK.size * _MARK.size], dtype="<f8").reshape(-1, 4)
        if not len(table):
            raise RuntimeError(f"nobody has written any mark of his work into {path.name}")
        return cls(*table.T)

    def units_between(self, start: float, end: float) -> float:
        """Work of that time; what lies between two marks is spread evenly."""
        return float(np.diff(np.interp([start, end], self.seconds, self.units))[0])

    def online_between(self, start: float, end: float) -> float:
        """Seconds that the engine worked for requests."""
        return float(np.diff(np.interp([start, end], self.seconds, self.online_seconds))[0])

    def held_between(self, start: float, end: float) -> float:
        """Steps that prompts were held back from."""
        return float(np.diff(np.interp([start, end], self.seconds, self.held))[0])


def tokens_between(marks: Marks, reports: list[Report], start: float, end: float) -> float:
    """Tokens worked through, of which the parts of an iteration count too.

    `reports`: of whole iterations; they tell how many tokens a unit of the work is. Raises `RuntimeError` where they
    tell of none.
    """
    first, last = reports[0], reports[-1]
    units = marks.units_between(first.seconds, last.seconds)
    if units <= 0 or last.tokens <= first.tokens:
        raise RuntimeError("the job has not ended an iteration, so how much its work is cannot be told")
    return marks.units_between(start, end) * (last.tokens - first.tokens) / units
