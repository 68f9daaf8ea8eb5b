"""What all readers share: rows with their line numbers, and the error that names them."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from types import MappingProxyType

import numpy as np

from rowen.simulator.requests import Requests, in_order

MOST_TOKENS = 10_000_000
"""Of one request; more is taken for a mistake."""
LEAST_SPAN_SECONDS = 1.0
"""Of a trace: a shorter one would be repeated more often than a mistake is worth."""


class TraceError(Exception):
    """A trace that cannot be read: the file, the line and what was expected."""

    def __init__(self, path: Path, line: int | None, expected: str) -> None:
        super().__init__(path, line, expected)
        self._told = f"{path}{f', line {line}' if line else ''}: {expected}"

    def __str__(self) -> str:
        return self._told


def rows(
    path: Path, header: Sequence[str] | None, hints: Mapping[tuple[str, ...], str] = MappingProxyType({})
) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file after its header, with their line numbers; empty lines are passed over.

    `header`: the columns that it must have, in order; None: it has no header. `hints`: what to say of headers of other
    formats. Raises `TraceError`.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield from _rows(path, csv.reader(file), header, hints)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(path, None, f"a readable CSV file in UTF-8 was expected: {error}") from None


def _rows(
    path: Path, lines: Iterator[list[str]], header: Sequence[str] | None, hints: Mapping[tuple[str, ...], str]
) -> Iterator[tuple[int, list[str]]]:
    expected = header
    for number, cells in enumerate(lines, start=1):
        if not cells:
            continue
        row = [cell.strip() for cell in cells]
        if expected is not None:
            if row != list(expected):
                told = f"the header {','.join(expected)} was expected, not {','.join(row)}"
                raise TraceError(path, number, told + hints.get(tuple(row), ""))
            expected = None
            continue
        if header is not None and len(row) != len(header):
            raise TraceError(path, number, f"{len(header)} columns were expected ({','.join(header)}), not {len(row)}")
        yield number, row
    if expected is not None:
        raise TraceError(path, 1, f"the header {','.join(expected)} was expected; the file is empty")


def number(path: Path, line: int, name: str, text: str, most: float = 1e15) -> float:
    """A number in [0, most]. Raises `TraceError`."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or not 0.0 <= value <= most:
        raise TraceError(path, line, f"{name}: a number from 0 to {most:g} was expected, not {text!r}")
    return value


def tokens(path: Path, line: int, name: str, text: str) -> int:
    """A number of tokens. Raises `TraceError`."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= MOST_TOKENS:
        raise TraceError(path, line, f"{name}: a whole number from 0 to {MOST_TOKENS} was expected, not {text!r}")
    return value


def requests_of(path: Path, arrivals: Sequence[float], inputs: Sequence[int], outputs: Sequence[int]) -> Requests:
    """The requests, sorted, the first at 0 s. Raises `TraceError` where there are none over at least a second."""
    if not arrivals:
        raise TraceError(path, None, "at least one request was expected; there is none")
    found = in_order(Requests(np.array(arrivals), np.array(inputs, dtype=float), np.array(outputs, dtype=float)))
    if found.span < LEAST_SPAN_SECONDS:
        raise TraceError(path, None, f"requests over at least a second were expected, not over {found.span:g} s")
    return found.shifted(-float(found.arrivals[0]))
