"""What a tuner has done by when."""

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Report:
    """Of a tuner, at the end of an iteration."""

    seconds: float
    """Monotonic."""
    tokens: int
    """Worked through by then."""


def read_reports(path: Path) -> list[Report]:
    """In order of time; a line that is being written is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()
    return [Report(float(seconds), int(tokens)) for seconds, tokens in (line.split() for line in lines)]


def tokens_between(reports: list[Report], start: float, end: float) -> float:
    """Tokens worked through, an iteration's evenly spread over the time since the report before it.

    What was under way at the end counts when a report after it says so.
    """
    return _tokens_at(reports, end) - _tokens_at(reports, start)


def _tokens_at(reports: list[Report], seconds: float) -> float:
    after = bisect_right(reports, seconds, key=lambda report: report.seconds)
    if after == 0:
        return float(reports[0].tokens) if reports else 0.0
    last = reports[after - 1]
    if after == len(reports):
        return float(last.tokens)
    following = reports[after]
    part = (seconds - last.seconds) / (following.seconds - last.seconds)
    return last.tokens + part * (following.tokens - last.tokens)
