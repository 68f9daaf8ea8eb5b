"""Rows of the OpenAI batch format, and what is said about lines that are none."""

import json
from pathlib import Path

import pytest

from rowen.crds.worker import ExitCode
from rowen.runtime.batch.requests import ChatRow, CompletionRow, read_requests
from rowen.runtime.failure import WorkerError


def row(custom_id: str = "a", url: str = "/v1/completions", method: str = "POST", **body: object) -> str:
    value = (
        {"prompt": "x", "model": "m"} if url == "/v1/completions" else {"messages": [{"role": "user", "content": "x"}]}
    )
    return json.dumps({"custom_id": custom_id, "method": method, "url": url, "body": value | body})


def problem(tmp_path: Path, line: str) -> str:
    (tmp_path / "in.jsonl").write_text(row("good") + "\n" + line + "\n")
    good, bad = read_requests(tmp_path / "in.jsonl")
    assert good.problem is None
    assert bad.row is None
    assert bad.problem is not None
    return bad.problem


def test_both_routes(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(row("a") + "\n\n" + row("b", "/v1/chat/completions"))
    first, second = read_requests(tmp_path / "in.jsonl")
    assert isinstance(first.row, CompletionRow)
    assert isinstance(second.row, ChatRow)
    assert (first.line, second.line) == (1, 3)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("{", "not JSON"),
        ("[1]", "row"),
        (row(url="/v1/embeddings"), "url"),
        (row(method="GET"), "method"),
        (row(temperature=9), "body.temperature"),
        (row(stream=True), "body.stream"),
        (row(n=2), "body.n"),
        (row(tools=[]), "body.tools"),
        (row(prompt=""), "body.prompt"),
        (row(custom_id=""), "custom_id"),
        (row(stop=""), "body.stop"),
        (row(stop=["a", ""]), "body.stop"),
        (row(stop="a\ud800"), "body.stop"),
        (row(stop=["a\ud800"]), "body.stop"),
        (row(prompt="a\ud800"), "body.prompt"),
        (row(seed=2**63), "body.seed"),
        (row(seed=-(2**63) - 1), "body.seed"),
        ("[" * 5000, "nested too deeply"),
        (row("b", "/v1/chat/completions", messages=[]), "body.messages"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, place: str) -> None:
    text = problem(tmp_path, line)
    assert text.startswith("in.jsonl:2: ")
    assert place in text


@pytest.mark.parametrize("seed", [2**63 - 1, -(2**63)])
def test_any_seed_of_64_bits_is_taken(seed: int, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(row(seed=seed))
    (request,) = read_requests(tmp_path / "in.jsonl")
    assert request.row is not None
    assert request.row.body.seed == seed


def test_a_repeated_custom_id_is_refused_and_says_where_it_was_used(tmp_path: Path) -> None:
    assert problem(tmp_path, row("good")) == "in.jsonl:2: custom_id 'good' was used on line 1"


@pytest.mark.parametrize("content", [None, "", "\n\n"])
def test_an_input_without_rows_is_missing(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "in.jsonl").write_text(content)
    with pytest.raises(WorkerError) as caught:
        read_requests(tmp_path / "in.jsonl")
    assert caught.value.reason == "InputMissing"


def test_a_disk_that_fails_is_tried_again() -> None:
    with pytest.raises(WorkerError, match="/proc/self/mem") as caught:
        read_requests(Path("/proc/self/mem"))
    assert (caught.value.reason, caught.value.code) == ("Failed", ExitCode.RETRY)


@pytest.mark.parametrize("name", ["none", "in.jsonl/below", "."])
def test_no_input_file_is_the_users_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(row())
    with pytest.raises(WorkerError, match=str(tmp_path / name)) as caught:
        read_requests(tmp_path / name)
    assert (caught.value.reason, caught.value.code) == ("InputMissing", ExitCode.USER_ERROR)
