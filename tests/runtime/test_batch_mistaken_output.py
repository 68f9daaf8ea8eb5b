"""An output path that is a mistake: the job is refused, and nothing on the volume is changed."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from runtime.trees import tree

from rowen.crds.job.worker import BatchSpec, ExitCode, Location, ModelLocation
from rowen.runtime.batch.__main__ import answer_all
from rowen.runtime.batch.results import ReadResult, may_begin, read_result
from rowen.runtime.batch.rows import Rows
from rowen.runtime.failure import WorkerError, failure_of
from rowen.runtime.native import NoTenant
from rowen.runtime.worker import Progress

OUR_LINE = b'{"id": "batch_req_1", "custom_id": "r1", "response": null, "error": {"code": "x", "message": "y"}}\n'
TORN_ANSWER = (
    b'{"id": "batch_req_1", "custom_id": "r1", "response": {"status_code": 200, "request_id": "batch_req_1", "b'
)
TORN_ERROR = b'{"id": "batch_req_2", "custom_id": null, "response": null, "error": {"code": "invalid_request", "messa'


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with an input whose second line is no row, and no model."""
    row = {"method": "POST", "url": "/v1/completions", "body": {"prompt": "x"}}
    lines = [json.dumps({"custom_id": "r1"} | row), "broken", json.dumps({"custom_id": "r3"} | row)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    return tmp_path


def order(volume: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """Hands the worker a job that writes there."""
    job = BatchSpec(
        model=ModelLocation(name_or_path=str(volume / "no-model")),
        input=Location(where=str(volume / "in.jsonl")),
        output=Location(where=str(volume / output)),
        memory_bytes=2**30,
    )
    monkeypatch.setenv("ROWEN_JOB_SPEC", job.model_dump_json(by_alias=True))


def answer(volume: Path, monkeypatch: pytest.MonkeyPatch, output: str = "out.jsonl") -> WorkerError:
    """How the job that writes there ends; without a model none gets to its end."""
    order(volume, monkeypatch, output)
    try:
        answer_all(Progress("rows", NoTenant()))
    except WorkerError as error:
        return error
    except OSError as error:
        return failure_of(error)
    pytest.fail("the job was done")


def _link(path: Path, target: str) -> None:
    path.symlink_to(target)


def _hard_link(path: Path, target: str) -> None:
    path.hardlink_to(path.with_name(target))


MISTAKES: list[tuple[str, Callable[[Path], object]]] = [
    ("text", lambda path: path.write_bytes(b"one line of notes\nand another one that has no end")),
    ("one line without an end", lambda path: path.write_bytes(b"notes")),
    ("binary", lambda path: path.write_bytes(bytes(range(256)) * 4)),
    ("zeros", lambda path: path.write_bytes(bytes(64))),
    ("blank lines", lambda path: path.write_bytes(b"\n\n")),
    ("deep JSON", lambda path: path.write_bytes(b"[" * 200_000 + b"\n")),
    ("JSON of other things", lambda path: path.write_bytes(b'{"id": 3}\n{"id": "batch_req_x"}\n')),
    (
        "a result without response",
        lambda path: path.write_bytes(b'{"id": "batch_req_1", "custom_id": "r1", "error": 1}\n'),
    ),
    ("another input's results", lambda path: path.write_bytes(OUR_LINE.replace(b'"r1"', b'"other"'))),
    (
        "results of further lines",
        lambda path: path.write_bytes(OUR_LINE + OUR_LINE.replace(b"batch_req_1", b"batch_req_9")),
    ),
    ("results, then notes", lambda path: path.write_bytes(OUR_LINE + b"notes\n" + TORN_ANSWER)),
    ("another input's torn result", lambda path: path.write_bytes(TORN_ANSWER.replace(b'"r1"', b'"other"'))),
    ("a torn line that goes on otherwise", lambda path: path.write_bytes(TORN_ANSWER[:-30] + b"notes")),
    ("a link to a folder", lambda path: _link(path, ".")),
    ("a link to nothing", lambda path: _link(path, "nothing")),
    ("a link to itself", lambda path: _link(path, path.name)),
    ("a link to a device", lambda path: _link(path, "/dev/null")),
    ("a folder", lambda path: path.mkdir()),
    ("a FIFO", lambda path: os.mkfifo(path)),
]


@pytest.mark.parametrize("make", [case[1] for case in MISTAKES], ids=[case[0] for case in MISTAKES])
def test_what_is_not_ours_is_left_alone(
    make: Callable[[Path], object], volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(volume / "out.jsonl")
    before = tree(volume)
    error = answer(volume, monkeypatch)
    assert (error.reason, error.code) == ("OutputUnwritable", ExitCode.USER_ERROR)
    assert str(volume / "out.jsonl") in error.message
    assert tree(volume) == before


@pytest.mark.parametrize(
    ("output", "named"),
    [("in.jsonl", "is the input itself"), ("in.jsonl/out.jsonl", "in.jsonl"), ("n" * 300, "n" * 300)],
    ids=["the input", "below the input", "a name that is too long"],
)
def test_a_path_that_cannot_be_an_output(
    output: str, named: str, volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(volume)
    error = answer(volume, monkeypatch, output)
    assert (error.reason, error.code) == ("OutputUnwritable", ExitCode.USER_ERROR)
    assert named in error.message
    assert tree(volume) == before


@pytest.mark.parametrize("make", [_link, _hard_link])
def test_the_input_is_known_by_any_name(
    make: Callable[[Path, str], None], volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(volume / "out.jsonl", "in.jsonl")
    before = tree(volume)
    error = answer(volume, monkeypatch)
    assert (error.reason, error.code) == ("OutputUnwritable", ExitCode.USER_ERROR)
    assert f"{volume / 'out.jsonl'} is the input itself" in error.message
    assert tree(volume) == before


def test_a_users_file_under_the_owners_name_is_left_alone(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (volume / ".out.jsonl.owner").write_text("me")
    before = tree(volume)
    error = answer(volume, monkeypatch)
    assert (error.reason, error.code) == ("OutputUnwritable", ExitCode.USER_ERROR)
    assert ".out.jsonl.owner" in error.message
    assert tree(volume) == before


OURS: list[tuple[str, bytes, bytes]] = [
    ("empty", b"", b""),
    ("whole", OUR_LINE, OUR_LINE),
    ("torn", OUR_LINE + TORN_ERROR, OUR_LINE),
    ("torn at its first byte", OUR_LINE + b"{", OUR_LINE),
    ("zeros after a power cut", OUR_LINE + bytes(64), OUR_LINE),
    ("torn in the only line", TORN_ANSWER, b""),
    ("torn in an only error", TORN_ERROR, b""),
    ("torn at the end of an answer", TORN_ANSWER + b'ody": {"id": "cmpl-1"}}, "error": null}', b""),
]


@pytest.mark.parametrize(("content", "kept"), [case[1:] for case in OURS], ids=[case[0] for case in OURS])
@pytest.mark.parametrize("linked", [False, True], ids=["", "linked"])
def test_our_own_file_is_gone_on_with(
    content: bytes, kept: bytes, linked: bool, volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = volume / "elsewhere" if linked else volume / "out.jsonl"
    target.write_bytes(content)
    if linked:
        (volume / "out.jsonl").symlink_to("elsewhere")
    assert answer(volume, monkeypatch).reason == "ModelMissing"
    written = target.read_bytes()
    assert written.startswith(kept)
    # Line 2 is no row: its error is written before the model is looked for.
    [added] = written[len(kept) :].splitlines()
    assert json.loads(added)["id"] == "batch_req_2"


def test_a_custom_id_that_utf8_cannot_say_is_written_and_recognised(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (volume / "in.jsonl").write_text('{"custom_id": "\\ud800"}\n')
    order(volume, monkeypatch, "new/out.jsonl")
    for _ in range(2):
        assert answer_all(Progress("rows", NoTenant())) == "1 rows, 1 of them errors (see out.jsonl)"
        [line] = (volume / "new" / "out.jsonl").read_text().splitlines()
        assert json.loads(line)["custom_id"] == "\ud800"
        assert [path.name for path in (volume / "new").iterdir()] == ["out.jsonl"]


@pytest.mark.parametrize("bytes_", [248, 249, 255])
def test_a_name_may_take_all_the_room(bytes_: int, volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(volume, monkeypatch, "n" * bytes_).reason == "ModelMissing"
    [owner] = {path.name for path in volume.iterdir()} - {"in.jsonl", "n" * bytes_}
    assert owner.startswith(".")
    assert (owner == f".{'n' * bytes_}.owner") is (bytes_ == 248)
    # The next attempt knows the owner again.
    assert answer(volume, monkeypatch, "n" * bytes_).reason == "ModelMissing"
    assert len(list(volume.iterdir())) == 3


def test_what_is_written_is_parsed_once(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (volume / "out.jsonl").write_bytes(OUR_LINE)
    parsed = []

    def counted(data: bytes, rows: Rows) -> ReadResult | None:
        parsed.append(data)
        return read_result(data, rows)

    monkeypatch.setattr("rowen.runtime.batch.file_output.read_result", counted)
    assert answer(volume, monkeypatch).reason == "ModelMissing"
    assert parsed == [OUR_LINE]


@pytest.mark.parametrize(
    ("content", "begins"),
    [
        (TORN_ANSWER, True),
        (TORN_ANSWER[:-30], True),
        (TORN_ANSWER[:-30] + b"notes", False),
        (TORN_ANSWER.replace(b"200", b"400"), True),
        (TORN_ANSWER.replace(b"200", b"4000"), False),
        (TORN_ANSWER.partition(b"200")[0] + b"4", True),
        (TORN_ANSWER.partition(b"200")[0] + b"404", True),
        (TORN_ANSWER.partition(b"200")[0] + b"40x", False),
        (TORN_ERROR, True),
        (b"", True),
        (b'{"id": "bat', True),
        (b'{"id": "batch_req_', True),
        (b'{"id": "batch_req_3', True),
        (b'{"id": "batch_req_3"', True),
        (b'{"id": "batch_req_4"', False),
        (b'{"id": "batch_req_0"', False),
        (b'{"id": "batch_req_x', False),
        (b'{"id": "batch_req_1x', False),
        (b'{"id": "batch_req_' + b"1" * 40, False),
        (b'{"id": "bot', False),
        (b"notes", False),
    ],
)
def test_how_a_result_begins(content: bytes, begins: bool, volume: Path) -> None:
    assert may_begin(content, Rows(volume / "in.jsonl")) is begins
