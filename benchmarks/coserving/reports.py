"""What a tuner has done by when."""

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
