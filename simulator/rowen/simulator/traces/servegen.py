"""ServeGen's client descriptions: a folder with `chunk-N-trace.csv` and `chunk-N-dataset.json` for each client.

A line of a trace is a window: its start in seconds, requests a second, coefficient of variation, family of the times
between arrivals (`Gamma`, `Weibull`, or empty: no traffic) and its two parameters, shape and scale. The scale is not
taken: it often disagrees with the rate, so it is worked out of rate and shape. A dataset holds, for window starts,
the distributions of lengths as text `{tokens: probability, ...}`. Requests are drawn from them (`sources.clients`).
"""

import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from math import gamma, inf, isfinite
from pathlib import Path

import numpy as np

from rowen.simulator.arrays import Floats
from rowen.simulator.traces.reading import MOST_TOKENS, TraceError, number, rows

WINDOW_SECONDS = 600.0
FAMILIES = ("Gamma", "Weibull", "")
_COLUMNS = ("window_start", "rate", "cv", "family", "parameter_1", "parameter_2")
_MOST_REQUESTS_PER_SECOND = 1e5
_PAIR = re.compile(r"\s*(\d+)(?:\.0*)?\s*:\s*([0-9.eE+-]+)\s*")


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """A distribution of a number of tokens."""

    tokens: Floats
    weights: Floats
    """Probabilities, added up: the last is 1."""

    def draw(self, count: int, source: np.random.Generator) -> Floats:
        """So many numbers of tokens."""
        return self.tokens[np.searchsorted(self.weights, source.random(count), side="right")]


@dataclass(frozen=True, slots=True)
class ClientWindow:
    """A client over `WINDOW_SECONDS`."""

    rate: float
    """Requests a second."""
    family: str
    shape: float
    scale: float
    """Of the family; seconds. The mean is 1 / rate."""


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """A client, from the start of its trace."""

    windows: tuple[ClientWindow, ...]
    starts: tuple[float, ...]
    """Where each of `lengths` begins, in seconds."""
    lengths: tuple[tuple[Lengths, Lengths], ...]
    """Input and output tokens."""

    @property
    def mean_rate(self) -> float:
        """Requests a second over the whole trace."""
        return sum(window.rate for window in self.windows) / len(self.windows)

    def lengths_at(self, seconds: float) -> tuple[Lengths, Lengths]:
        """The distributions that hold then."""
        return self.lengths[max(0, bisect_right(self.starts, seconds) - 1)]


def read(folder: Path) -> tuple[Client, ...]:
    """All clients that have traffic and a dataset, by number. Raises `TraceError`."""
    found = sorted(folder.rglob("chunk-*-trace.csv"), key=_number)
    clients = []
    for path in found:
        dataset = path.with_name(path.name.replace("-trace.csv", "-dataset.json"))
        windows = _windows(path)
        lengths = _dataset(dataset) if dataset.exists() else {}
        if lengths and any(window.rate > 0 for window in windows):
            starts = tuple(sorted(lengths))
            clients.append(Client(windows, starts, tuple(lengths[start] for start in starts)))
    if not clients:
        expected = "at least one pair chunk-N-trace.csv and chunk-N-dataset.json with traffic was expected"
        raise TraceError(folder, None, f"{expected}; {len(found)} traces are there")
    return tuple(clients)


def _number(path: Path) -> tuple[int, str]:
    digits = re.sub(r"\D", "", path.name)
    return int(digits or 0), path.name


def _windows(path: Path) -> tuple[ClientWindow, ...]:
    found = []
    for line, row in rows(path, None):
        if len(row) != len(_COLUMNS):
            raise TraceError(path, line, f"6 columns were expected ({','.join(_COLUMNS)}), not {len(row)}")
        found.append(_window(path, line, row))
        if number(path, line, "window_start", row[0]) != (len(found) - 1) * WINDOW_SECONDS:
            expected = f"window_start {(len(found) - 1) * WINDOW_SECONDS:g} was expected"
            raise TraceError(path, line, f"{expected} (windows of 600 s, from 0, without a gap), not {row[0]}")
    if not found:
        raise TraceError(path, None, "at least one window was expected; the file is empty")
    return tuple(found)


def _window(path: Path, line: int, row: list[str]) -> ClientWindow:
    rate = number(path, line, "rate", row[1], _MOST_REQUESTS_PER_SECOND)
    family = row[3]
    if family not in FAMILIES:
        raise TraceError(path, line, f"family: Gamma, Weibull or nothing was expected, not {family!r}")
    if not family or rate == 0.0:
        return ClientWindow(0.0, "", 0.0, 0.0)
    shape, scale = (number(path, line, name, text) for name, text in zip(_COLUMNS[4:], row[4:], strict=True))
    if shape <= 0.0 or scale <= 0.0:
        raise TraceError(path, line, f"parameters of {family} above 0 were expected, not {row[4]} and {row[5]}")
    scale = _scale(rate, family, shape)
    if not 0.0 < scale < inf:
        raise TraceError(path, line, f"{row[4]} for parameter_1 of {family} cannot have a mean of 1 / {row[1]}")
    return ClientWindow(rate, family, shape, scale)


def _scale(rate: float, family: str, shape: float) -> float:
    """That makes 1 / rate the mean, which is scale x shape of Gamma and scale x Γ(1 + 1 / shape) of Weibull."""
    try:
        return 1.0 / rate / (shape if family == "Gamma" else gamma(1.0 + 1.0 / shape))
    except OverflowError:
        return 0.0


def _dataset(path: Path) -> dict[float, tuple[Lengths, Lengths]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise TraceError(path, None, f"a JSON object was expected: {error}") from None
    if not isinstance(content, Mapping):
        raise TraceError(path, None, "an object with a window's start for each key was expected")
    found = {}
    for start, window in content.items():
        if not isinstance(window, Mapping):
            raise TraceError(path, None, f"window {start}: an object was expected")
        given = _lengths(path, start, "input_tokens", window.get("input_tokens", window.get("text_tokens", "{}")))
        made = _lengths(path, start, "output_tokens", window.get("output_tokens", "{}"))
        if given is not None and made is not None:
            found[number(path, 0, "window", str(start))] = given, made
    return found


def _lengths(path: Path, start: str, name: str, text: object) -> Lengths | None:
    """None where the window has no data."""
    expected = f"window {start}, {name}: text {{tokens: probability, ...}} was expected"
    if not isinstance(text, str) or not (text.startswith("{") and text.endswith("}")):
        raise TraceError(path, None, f"{expected}, not {str(text)[:40]!r}")
    pairs = [pair for pair in text[1:-1].split(",") if pair.strip()]
    matches = [_PAIR.fullmatch(pair) for pair in pairs]
    if not pairs:
        return None
    try:
        values = [(int(match[1]), float(match[2])) for match in matches if match is not None]
    except ValueError:
        values = []
    total = sum(weight for _, weight in values)
    if len(values) != len(pairs) or not isfinite(total) or min(weight for _, weight in values) < 0 or total <= 0:
        raise TraceError(path, None, f"{expected}, with probabilities from 0 that are not all 0")
    if max(amount for amount, _ in values) > MOST_TOKENS:
        raise TraceError(path, None, f"{expected}, with at most {MOST_TOKENS} tokens")
    added = np.cumsum([weight for _, weight in values]) / total
    added[-1] = 1.0
    return Lengths(np.array([amount for amount, _ in values], dtype=float), added)
