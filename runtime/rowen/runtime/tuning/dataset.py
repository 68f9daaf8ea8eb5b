"""The dataset of a fine-tuning job: JSONL rows, and the examples made of them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rowen.runtime.failure import WorkerError

_REPORTED_LINES = 5

Tokenize = Callable[[str], list[int]]


@dataclass(frozen=True)
class Row:
    """One line: what is given and what is learned."""

    prompt: str
    completion: str


@dataclass(frozen=True)
class Example:
    """Token ids of a row, of which the first `prompt_tokens` are given and not learned."""

    tokens: list[int]
    prompt_tokens: int


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


def encode(rows: list[Row], tokenize: Tokenize, end: list[int], sequence_length: int) -> list[Example]:
    """Examples of at most `sequence_length` tokens; rows of which nothing is left to learn are dropped."""
    examples = []
    for row in rows:
        prompt = tokenize(row.prompt) if row.prompt else []
        tokens = (prompt + tokenize(row.completion) + end)[:sequence_length]
        if len(tokens) > max(len(prompt), 1):
            examples.append(Example(tokens, len(prompt)))
    return examples


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield number, line
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise WorkerError("DatasetMissing", f"no dataset file {path}") from error
    except PermissionError as error:
        raise WorkerError("DatasetMissing", f"{path} cannot be read: {error.strerror}") from error


def _row(line: bytes) -> Row:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    fields = {name: value[name] for name in ("text", "prompt", "completion") if name in value}
    for name, text in fields.items():
        if not isinstance(text, str) or not text:
            raise ValueError(f"{name} is not a text, or is empty")
    if fields.keys() == {"text"}:
        return Row("", fields["text"])
    if fields.keys() == {"prompt", "completion"}:
        return Row(fields["prompt"], fields["completion"])
    raise ValueError("expected either text, or prompt and completion")
