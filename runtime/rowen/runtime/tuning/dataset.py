"""The dataset of a fine-tuning job: JSONL rows."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rowen.runtime.failure import WorkerError, reading

_REPORTED_LINES = 5
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair: whole ones have become one character when JSON is read."""


@dataclass(frozen=True)
class Row:
    """One line: what is given and what is learned."""

    prompt: str
    completion: str


def read_rows(path: Path) -> list[Row]:
    """All rows. Raises `WorkerError` that names file and line when the file is missing or a row is malformed."""
    rows: list[Row] = []
    wrong: list[str] = []
    for number, line in _lines(path):
        try:
            rows.append(_row(line))
        except ValueError as error:
            wrong.append(f"{path}:{number}: {error}")
    if wrong:
        shown = "; ".join(wrong[:_REPORTED_LINES])
        more = f"; and {len(wrong) - _REPORTED_LINES} more" if len(wrong) > _REPORTED_LINES else ""
        raise WorkerError("DatasetMalformed", shown + more)
    if not rows:
        raise WorkerError("DatasetMalformed", f"{path} has no rows")
    return rows


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with reading("DatasetMissing", path), path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield number, line


def _row(line: bytes) -> Row:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    fields = {name: value[name] for name in ("text", "prompt", "completion") if name in value}
    for name, text in fields.items():
        if not isinstance(text, str) or not text:
            raise ValueError(f"{name} is not a text, or is empty")
        if _SURROGATE.search(text):
            raise ValueError(f"{name} holds half of a surrogate pair, which no tokenizer takes")
    if fields.keys() == {"text"}:
        return Row("", fields["text"])
    if fields.keys() == {"prompt", "completion"}:
        return Row(fields["prompt"], fields["completion"])
    raise ValueError("expected either text, or prompt and completion")
