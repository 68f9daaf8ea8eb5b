"""The trace excerpt: when requests arrived and how many tokens they read and wrote."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

EXCERPT = Path(__file__).parent / "azure-llm-2023-code-excerpt.csv"
EXCERPT_SECONDS = 180.0
ATTRIBUTION = "Azure LLM inference trace 2023 (code), CC BY 4.0; Patel et al., Splitwise, ISCA 2024"

_COLUMNS = ["arrival_seconds", "context_tokens", "generated_tokens"]


@dataclass(frozen=True)
class TraceRow:
    """One request of the trace."""

    arrival: float
    """Seconds from the start of the excerpt."""
    context_tokens: int
    """Tokens read."""
    generated_tokens: int
    """Tokens written."""


def parse(lines: Iterable[str]) -> list[TraceRow]:
    """Rows of an excerpt in CSV, in order of arrival.

    Raises:
        ValueError: The header is another, or a row is malformed, out of order or has no tokens; names the line.
    """
    reader = csv.reader(lines)
    if next(reader, None) != _COLUMNS:
        raise ValueError(f"line 1: expected the columns {', '.join(_COLUMNS)}")
    rows: list[TraceRow] = []
    for number, cells in enumerate(reader, start=2):
        rows.append(_row(number, cells, rows[-1].arrival if rows else 0.0))
    return rows


def _row(number: int, cells: list[str], not_before: float) -> TraceRow:
    try:
        arrival, context, generated = cells
        row = TraceRow(float(arrival), int(context), int(generated))
    except ValueError as error:
        raise ValueError(f"line {number}: expected a time and two counts, found {cells}") from error
    if row.arrival < not_before:
        raise ValueError(f"line {number}: arrives at {row.arrival} s, before the row above it")
    if row.context_tokens < 1 or row.generated_tokens < 1:
        raise ValueError(f"line {number}: token counts must be above zero")
    return row


def load(path: Path = EXCERPT) -> list[TraceRow]:
    """Rows of the excerpt file. Raises `OSError`, or `ValueError` as `parse` does."""
    with path.open(encoding="utf-8", newline="") as lines:
        return parse(lines)
