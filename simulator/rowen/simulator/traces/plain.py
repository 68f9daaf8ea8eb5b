"""The plain format: a CSV file `arrival_seconds,input_tokens,output_tokens`, into which any trace can be turned."""

from pathlib import Path

from rowen.simulator.requests import Requests
from rowen.simulator.traces import azure
from rowen.simulator.traces.reading import number, requests_of, rows, tokens

HEADER = ("arrival_seconds", "input_tokens", "output_tokens")
_HINTS: dict[tuple[str, ...], str] = {azure.HEADER: "; --format azure reads this file"}


def read(path: Path) -> Requests:
    """Reads the file, in any order of arrival. Raises `TraceError`."""
    arrivals: list[float] = []
    inputs: list[int] = []
    outputs: list[int] = []
    for line, (arrival, given, made) in rows(path, HEADER, _HINTS):
        arrivals.append(number(path, line, HEADER[0], arrival))
        inputs.append(tokens(path, line, HEADER[1], given))
        outputs.append(tokens(path, line, HEADER[2], made))
    return requests_of(path, arrivals, inputs, outputs)
