"""The files of a dataset: JSONL, Parquet, or a folder of them."""

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow
from pyarrow.parquet import ParquetFile

from rowen.crds.faults import not_json
from rowen.runtime.failure import WorkerError, input_failure, reading
from rowen.runtime.line_reader import is_too_long, read_lines, too_long

Record = tuple[str, Callable[[], object]]
"""Where a row is, and how its value is read; that raises `ValueError`."""

_PARQUET = ".parquet"
_SUFFIXES = (".jsonl", _PARQUET)
PATTERNS = tuple(f"*{suffix}" for suffix in _SUFFIXES)
"""What counts in a folder."""
_ROWS_AT_ONCE = 1024


def files(path: Path) -> list[Path]:
    """The dataset's files in the order in which they are read. Raises `WorkerError`."""
    with reading("DatasetMissing", path):
        if path.is_file():
            return [path]
        if not path.is_dir():
            raise WorkerError("DatasetMissing", f"no dataset {path}")
        found = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and _is_visible(file, path))
    if not found:
        raise WorkerError("DatasetMissing", f"{path} holds no file that ends in {' or '.join(_SUFFIXES)}")
    return found


def records(path: Path) -> Iterator[Record]:
    """All rows of the dataset. Raises `WorkerError`."""
    for file in files(path):
        yield from _parquet_rows(file) if file.suffix == _PARQUET else _lines(file)


def digest(path: Path) -> str:
    """A digest of the files' names and contents. Raises `WorkerError`."""
    whole = hashlib.sha256()
    for file in files(path):
        with reading("DatasetMissing", file), file.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        whole.update(json.dumps([str(file.relative_to(path)), content]).encode())
    return whole.hexdigest()


def _is_visible(file: Path, folder: Path) -> bool:
    return file.is_file() and not any(part.startswith(".") for part in file.relative_to(folder).parts)


def _lines(path: Path) -> Iterator[Record]:
    with reading("DatasetMissing", path), path.open("rb") as stream:
        for number, (_, line) in enumerate(read_lines(stream), start=1):
            if is_too_long(line) or line.strip():
                yield f"{path}:{number}", partial(_parsed, line)


def _parsed(line: bytes) -> object:
    if is_too_long(line):
        raise ValueError(too_long())
    try:
        return json.loads(line)
    except ValueError as error:
        raise ValueError(not_json(error)) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _parquet_rows(path: Path) -> Iterator[Record]:
    number = 0
    try:
        with reading("DatasetMissing", path), ParquetFile(path) as table:
            for batch in table.iter_batches(_ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}: row {number}", partial(_without_nulls, row)
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        message = f"{path} cannot be read as Parquet after row {number}: {error}"
        raise input_failure("DatasetMalformed", message, error) from error


def _without_nulls(value: object) -> object:
    """A column has all fields that any of its rows has: what one lacks is null."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value
