"""The Azure LLM inference traces of 2023: a CSV file `TIMESTAMP,ContextTokens,GeneratedTokens`."""

from datetime import UTC, datetime
from pathlib import Path

from rowen.simulator.requests import Requests
from rowen.simulator.traces.reading import TraceError, requests_of, rows, tokens

HEADER = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def read(path: Path) -> Requests:
    """Reads the file. Times have no zone, so they count as UTC. Raises `TraceError`."""
    arrivals: list[float] = []
    inputs: list[int] = []
    outputs: list[int] = []
    for line, (time, given, made) in rows(path, HEADER):
        arrivals.append(_seconds(path, line, time))
        inputs.append(tokens(path, line, HEADER[1], given))
        outputs.append(tokens(path, line, HEADER[2], made))
    return requests_of(path, arrivals, inputs, outputs)


def _seconds(path: Path, line: int, text: str) -> float:
    """Unix seconds; the trace has seven digits behind the point, which `fromisoformat` cuts to six."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise TraceError(path, line, f"TIMESTAMP: YYYY-MM-DD hh:mm:ss.fffffff was expected, not {text!r}") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
