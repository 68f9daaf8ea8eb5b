"""The files of a dataset, and what is said of rows that are wrong."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from rowen.crds.job.worker import ExitCode
from rowen.runtime import line_reader
from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.data.rows import Chat, Text, row_of
from rowen.runtime.tuning.data.source import digest, files, records

BROKEN = Path("/proc/self/mem")
"""A file that opens, and whose first byte is an input/output error."""
SAID = [{"role": "user", "content": "it leaks"}, {"role": "assistant", "content": "descale it"}]
EMPTY = {"role": "system", "content": ""}
CALLS = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "look", "arguments": {}}}]}


def write(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path) -> list[tuple[str, object]]:
    return [(place, value()) for place, value in records(path)]


@pytest.mark.parametrize("name", ["data.jsonl", "data.parquet", "data"])
def test_a_file_is_read_by_its_name(name: str, tmp_path: Path) -> None:
    rows = [{"text": "a"}, {"text": "b"}]
    path = write(tmp_path / name, rows)
    mark = ": row " if name.endswith("parquet") else ":"
    assert read(path) == [(f"{path}{mark}{number}", row) for number, row in enumerate(rows, start=1)]


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", [{"text": "3"}])
    write(tmp_path / "a/2.parquet", [{"text": "2"}])
    write(tmp_path / "a/1.jsonl", [{"text": "1"}])
    for other in ("README.md", ".hidden.jsonl", ".cache/c.jsonl"):
        write(tmp_path / other, [{"text": "no"}])
    assert [value for _, value in read(tmp_path)] == [{"text": "1"}, {"text": "2"}, {"text": "3"}]


def test_what_a_parquet_row_lacks_is_left_out(tmp_path: Path) -> None:
    called = [{"role": "assistant", "tool_calls": [{"name": "look"}]}]
    rows = [{"messages": SAID, "text": None}, {"messages": called}, {"text": "a"}]
    path = write(tmp_path / "data.parquet", rows)
    assert [value for _, value in read(path)] == [{"messages": SAID}, {"messages": called}, {"text": "a"}]


@pytest.mark.parametrize("path", ["none.jsonl", "empty", "n" * 300])
def test_no_dataset_is_the_users_error(path: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(WorkerError, match=str(tmp_path / path)) as caught:
        files(tmp_path / path)
    assert (caught.value.reason, caught.value.code) == ("DatasetMissing", ExitCode.USER_ERROR)


def test_what_is_no_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    path.write_text("no")
    with pytest.raises(WorkerError, match=f"{path} cannot be read as Parquet") as caught:
        read(path)
    assert (caught.value.reason, caught.value.code) == ("DatasetMalformed", ExitCode.USER_ERROR)


def test_a_parquet_text_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    wrong = pyarrow.array([b"good", b"\xff\xfe"], pyarrow.binary())
    texts = pyarrow.Array.from_buffers(pyarrow.string(), len(wrong), wrong.buffers())
    parquet.write_table(pyarrow.table({"text": texts}), path)
    with pytest.raises(WorkerError, match=f"{path} cannot be read as Parquet") as caught:
        read(path)
    assert (caught.value.reason, caught.value.code) == ("DatasetMalformed", ExitCode.USER_ERROR)


def test_a_disk_that_fails_is_tried_again() -> None:
    with pytest.raises(WorkerError, match=str(BROKEN)) as caught:
        read(BROKEN)
    assert (caught.value.reason, caught.value.code) == ("Failed", ExitCode.RETRY)


def test_a_line_that_is_too_long_is_named_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "LONGEST_LINE_BYTES", 2**20)
    path = write(tmp_path / "data.jsonl", [{"text": "a"}])
    with path.open("r+b") as stream:
        stream.truncate(64 * 2**20)
        stream.seek(0, 2)
        stream.write(b'\n{"text": "b"}\n')
    tracemalloc.start()
    found = list(records(path))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 8 * 2**20
    assert [(place, value()) for place, value in found[::2]] == [
        (f"{path}:1", {"text": "a"}),
        (f"{path}:3", {"text": "b"}),
    ]
    assert found[1][0] == f"{path}:2"
    with pytest.raises(ValueError, match="longer than 1Mi"):
        found[1][1]()


def test_another_content_or_name_has_another_digest(tmp_path: Path) -> None:
    path = write(tmp_path / "a/1.jsonl", [{"text": "1"}])
    seen = {digest(path), digest(path.parent)}
    path = path.rename(path.with_name("2.jsonl"))
    seen |= {digest(path.parent)}
    write(path, [{"text": "2"}])
    seen |= {digest(path), digest(path.parent)}
    assert len(seen) == 5
    assert digest(path) == digest(path)


@pytest.mark.parametrize(
    ("value", "row"),
    [
        ({"text": "a"}, Text("", "a")),
        ({"prompt": "a", "completion": "b", "id": 7}, Text("a", "b")),
        ({"messages": SAID}, Chat([], SAID)),
        ({"messages": [EMPTY, *SAID, CALLS]}, Chat([], [EMPTY, *SAID, CALLS])),
        ({"prompt": SAID[:1], "completion": SAID[1:]}, Chat(SAID[:1], SAID[1:])),
        ({"messages": SAID, "tools": [{"name": "look"}]}, Chat([], SAID, [{"name": "look"}])),
        ({"messages": SAID, "tools": '[{"name": "look"}]'}, Chat([], SAID, [{"name": "look"}])),
    ],
)
def test_kinds_of_rows(value: object, row: Text | Chat) -> None:
    assert row_of(value) == row


EXPECTED = "expected either messages, or prompt and completion, or text"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([1], "not a JSON object"),
        ({}, EXPECTED),
        ({"prompt": "only"}, EXPECTED),
        ({"question": "a", "answer": "b"}, f"{EXPECTED}; the row has question, answer$"),
        ({"text": "a", "messages": SAID}, EXPECTED),
        ({"text": SAID}, EXPECTED),
        ({"text": 3}, "text is not a text, or is empty"),
        ({"text": ""}, "text is not a text, or is empty"),
        ({"messages": "hello"}, "messages is not a list, or is empty"),
        ({"messages": []}, "messages is not a list, or is empty"),
        ({"messages": [{"content": "a"}]}, r"messages\[0\] is not an object with a role"),
        ({"messages": [*SAID, {"role": "user"}]}, r"messages\[2\] has a role and no content"),
        ({"messages": [{"role": "user", "content": None}]}, r"messages\[0\] has a role and no content"),
        ({"prompt": SAID, "completion": "b"}, "prompt and completion are two texts, or two lists of messages"),
        ({"messages": SAID, "tools": "look"}, "tools is not a list, or JSON of one"),
        ({"messages": SAID, "tools": "{}"}, "tools is not a list, or JSON of one"),
        ({"messages": SAID, "tools": "[" * 100_000}, "tools is not a list, or JSON of one"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages holds half of a surrogate pair"),
    ],
)
def test_a_row_that_is_none_is_told_why(value: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        row_of(value)
