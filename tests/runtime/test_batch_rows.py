"""Rows of the OpenAI batch format, and what is said about lines that are none."""

import json
import tracemalloc
from pathlib import Path

import pytest

from rowen.crds.job.worker import ExitCode
from rowen.runtime import line_reader
from rowen.runtime.batch.output import Lines
from rowen.runtime.batch.rows import Rows
from rowen.runtime.failure import WorkerError


def row(custom_id: str = "a", url: str = "/v1/completions", method: str = "POST", **body: object) -> str:
    value = (
        {"prompt": "x", "model": "m"} if url == "/v1/completions" else {"messages": [{"role": "user", "content": "x"}]}
    )
    return json.dumps({"custom_id": custom_id, "method": method, "url": url, "body": value | body})


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def problem(tmp_path: Path, line: str) -> str:
    (tmp_path / "in.jsonl").write_text(row("good") + "\n" + line + "\n")
    rows = Rows(tmp_path / "in.jsonl")
    [bad] = rows.problems()
    assert (bad.line, bad.content) == (2, None)
    assert rows.row(1).problem is None
    assert bad.problem is not None
    return bad.problem


def test_blank_lines_count_in_numbers_alone(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(row("a") + "\n\n" + row("b", "/v1/chat/completions"))
    rows = Rows(tmp_path / "in.jsonl")
    assert (len(rows), list(rows), list(rows.problems())) == (2, [1, 3], [])
    content = rows.row(3).content
    assert content is not None
    assert (content.custom_id, content.url) == ("b", "/v1/chat/completions")
    assert [rows.has_line(line) for line in range(5)] == [False, True, False, True, False]
    assert (rows.has(3, "b"), rows.has(3, "a"), rows.has(2, None)) == (True, False, False)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('{"custom_id": 1', "not JSON: Expecting ',' delimiter at character 17"),
        ('{"custom_id": "a', "not JSON: Invalid control character at character 17"),
        ("[1]", "row"),
        (row(method="GET"), "method"),
        (row(stream=True), "body.stream: a row is answered in one piece"),
        (row(custom_id=""), "custom_id"),
        (json.dumps({"custom_id": "b", "method": "POST", "url": "/v1/completions", "body": []}), "body"),
        (json.dumps({"custom_id": "b", "method": "POST", "body": {}}), "url"),
        (row("b")[:-1] + ', "priority": 3}', "priority"),
        ("[" * 5000, "nested too deeply"),
        (row(tools=nested(100)), "nested too deeply, more than 100 levels"),
        (row(tools={"a": [nested(97)]}), "nested too deeply"),
        ("null", "row"),
        ("3", "row"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, place: str) -> None:
    text = problem(tmp_path, line)
    assert text.startswith("in.jsonl:2: ")
    assert place in text


def test_a_hundred_levels_are_read_wherever_that_is_done(tmp_path: Path) -> None:
    deep, deeper = nested(98), {"a": nested(97)}
    (tmp_path / "in.jsonl").write_text("\n".join([row("a", tools=deep), row("b", tools=deeper)]))
    rows = Rows(tmp_path / "in.jsonl")
    assert list(rows.problems()) == []

    def read(frames: int) -> list[object]:
        if frames:
            return read(frames - 1)
        contents = [rows.row(line).content for line in (1, 2)]
        return [content.body["tools"] for content in contents if content is not None]

    assert read(300) == [deep, deeper]


def test_a_body_is_the_servers_to_judge(tmp_path: Path) -> None:
    body = {"tools": [], "n": 2, "temperature": 99, "stream": False, "anything": {"a": [1, None]}}
    (tmp_path / "in.jsonl").write_text(row(**body))
    content = Rows(tmp_path / "in.jsonl").row(1).content
    assert content is not None
    assert content.body == {"prompt": "x", "model": "m"} | body


def test_a_repeated_custom_id_is_refused_and_says_where_it_was_used(tmp_path: Path) -> None:
    assert problem(tmp_path, row("good")) == "in.jsonl:2: custom_id 'good' was used on line 1"


def test_each_repetition_names_the_first(tmp_path: Path) -> None:
    known = ["a", "b", "a", "c", "b", "a"]
    lines = [row(custom_id) for custom_id in known]
    # A line that is no row uses nothing up.
    (tmp_path / "in.jsonl").write_text("\n".join([row("c", method="GET"), "", *lines]))
    said = {bad.line: bad.problem for bad in Rows(tmp_path / "in.jsonl").problems()}
    assert said.keys() == {1, 5, 7, 8}
    assert [said[line] for line in (5, 7, 8)] == [
        "in.jsonl:5: custom_id 'a' was used on line 3",
        "in.jsonl:7: custom_id 'b' was used on line 4",
        "in.jsonl:8: custom_id 'a' was used on line 3",
    ]


def test_a_row_that_has_changed_since_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(row("a") + "\n" + row("b"))
    rows = Rows(tmp_path / "in.jsonl")
    (tmp_path / "in.jsonl").write_text(row("a") + "\n" + row("c"))
    assert rows.row(1).custom_id == "a"
    with pytest.raises(WorkerError, match=r"in\.jsonl:2 has changed") as caught:
        rows.row(2)
    assert caught.value.code is ExitCode.RETRY


def test_a_line_that_is_too_long_is_a_problem_and_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "LONGEST_LINE_BYTES", 2**20)
    path = tmp_path / "in.jsonl"
    with path.open("wb") as stream:
        stream.write(row("a").encode() + b"\n")
        stream.truncate(64 * 2**20)
        stream.seek(0, 2)
        stream.write(b"\n" + row("b").encode())
    tracemalloc.start()
    rows = Rows(path)
    said = [(bad.line, bad.problem) for bad in rows.problems()]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert said == [(2, "in.jsonl:2: longer than 1Mi")]
    assert [rows.row(line).custom_id for line in rows] == ["a", None, "b"]
    assert peak_bytes < 8 * 2**20


@pytest.mark.parametrize("spaces", [0, 1])
def test_the_newline_counts_in_the_length_of_a_line(
    spaces: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_reader, "LONGEST_LINE_BYTES", len(row("a")) + 1)
    (tmp_path / "in.jsonl").write_text(row("a") + " " * spaces + "\n" + " " * 1000 + "\n\n" + row("b"))
    rows = Rows(tmp_path / "in.jsonl")
    assert [bad.line for bad in rows.problems()] == [1, 2][1 - spaces :]
    assert [rows.row(line).custom_id for line in rows] == [None if spaces else "a", None, "b"]


def test_a_million_rows_take_some_bytes_each(tmp_path: Path) -> None:
    with (tmp_path / "in.jsonl").open("w") as stream:
        stream.writelines(row(str(number), prompt="x" * 1000) + "\n" for number in range(20_000))
    tracemalloc.start()
    rows = Rows(tmp_path / "in.jsonl")
    lines = Lines(rows)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(rows), len(lines)) == (20_000, 20_000)
    assert held < 60 * 20_000


@pytest.mark.parametrize("content", [None, "", "\n\n"])
def test_an_input_without_rows_is_missing(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "in.jsonl").write_text(content)
    with pytest.raises(WorkerError) as caught:
        Rows(tmp_path / "in.jsonl")
    assert caught.value.reason == "InputMissing"


def test_a_disk_that_fails_is_tried_again() -> None:
    with pytest.raises(WorkerError, match="/proc/self/mem") as caught:
        Rows(Path("/proc/self/mem"))
    assert (caught.value.reason, caught.value.code) == ("Failed", ExitCode.RETRY)


@pytest.mark.parametrize("name", ["none", "in.jsonl/below", "."])
def test_no_input_file_is_the_users_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(row())
    with pytest.raises(WorkerError, match=str(tmp_path / name)) as caught:
        Rows(tmp_path / name)
    assert (caught.value.reason, caught.value.code) == ("InputMissing", ExitCode.USER_ERROR)


@pytest.mark.parametrize("changed", [row("a", stream=True), row("a")[:-1] + ', "x": 1}', row("b")])
def test_a_row_that_changes_under_the_job_is_no_row_that_is_passed_over(changed: str, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(row("a") + "\n")
    rows = Rows(path)
    path.write_text(changed + "\n")
    with pytest.raises(WorkerError, match=r"in\.jsonl:1 has changed") as caught:
        rows.row(1)
    assert caught.value.code is ExitCode.RETRY


def test_a_line_that_was_no_row_and_is_one_now_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(row("a", stream=True) + "\n" + row("b"))
    rows = Rows(path)
    path.write_text(row("a") + "\n" + row("b"))
    with pytest.raises(WorkerError, match=r"in\.jsonl:1 has changed"):
        list(rows.problems())
