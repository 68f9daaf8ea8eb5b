"""Each row is written exactly once, whatever happens."""

import errno
import json
import os
from pathlib import Path

import pytest
from runtime.scripted_engine import ScriptedEngine

from rowen.runtime.batch.memory import MAX_SEQUENCES
from rowen.runtime.batch.output import Output, read_written
from rowen.runtime.batch.requests import Request, read_requests
from rowen.runtime.batch.runner import BatchRunner, write_problems
from rowen.runtime.failure import WorkerError
from rowen.runtime.fence import Fence
from rowen.runtime.native import NoTenant
from rowen.runtime.worker import Progress

ROWS = 40
BAD_LINE = 7


@pytest.fixture
def requests(tmp_path: Path) -> list[Request]:
    body = {"prompt": "x"}
    lines = [
        json.dumps({"custom_id": f"r{number}", "method": "POST", "url": "/v1/completions", "body": body})
        for number in range(1, ROWS + 1)
    ]
    lines[BAD_LINE - 1] = "broken"
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    return read_requests(tmp_path / "in.jsonl")


def opened(folder: Path, fence: Fence, requests: list[Request]) -> Output:
    path = folder / "out.jsonl"
    return Output(path, fence, requests, read_written(path, requests))


def run(
    requests: list[Request], folder: Path, engine: ScriptedEngine | None = None, attempt: int = 1
) -> tuple[Progress, ScriptedEngine]:
    engine = engine or ScriptedEngine()
    progress = Progress("rows", NoTenant())
    output = opened(folder, Fence(folder / "owner", attempt), requests)
    try:
        write_problems(requests, output)
        BatchRunner(engine, output, progress, "m", 0).run(requests)
    finally:
        output.close()
    return progress, engine


def ids(folder: Path) -> list[str]:
    return [json.loads(line)["id"] for line in (folder / "out.jsonl").read_text().splitlines()]


def test_every_row_once_and_the_rest_in_spite_of_a_bad_line(requests: list[Request], tmp_path: Path) -> None:
    progress, engine = run(requests, tmp_path)
    assert sorted(ids(tmp_path)) == sorted(f"batch_req_{line}" for line in range(1, ROWS + 1))
    assert (progress.completed, progress.total, progress.tokens) == (ROWS, ROWS, 5 * (ROWS - 1))
    assert engine.most_at_once == MAX_SEQUENCES
    bad = next(json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines() if "broken" not in line)
    assert bad["response"] is None
    assert bad["error"]["message"].startswith(f"in.jsonl:{BAD_LINE}: ")


def test_torn_at_every_byte_of_the_last_lines_it_recovers(requests: list[Request], tmp_path: Path) -> None:
    run(requests, tmp_path)
    path = tmp_path / "out.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(b"".join(lines[:-2])), len(whole)):
        path.write_bytes(whole[:cut])
        run(requests, tmp_path, attempt=2)
        assert sorted(ids(tmp_path)) == sorted(f"batch_req_{line}" for line in range(1, ROWS + 1))


def test_a_crash_of_the_engine_loses_no_written_row(requests: list[Request], tmp_path: Path) -> None:
    class Crashing(ScriptedEngine):
        def step(self):  # type: ignore[no-untyped-def]
            if len(self.seen) > 25:
                raise RuntimeError("engine died")
            return super().step()

    with pytest.raises(RuntimeError):
        run(requests, tmp_path, Crashing())
    written = set(ids(tmp_path))
    _, engine = run(requests, tmp_path, attempt=2)
    assert len(ids(tmp_path)) == ROWS
    assert not {f"batch_req_{line}" for line in engine.seen} & written


def test_a_row_that_the_model_cannot_take_gets_an_error(requests: list[Request], tmp_path: Path) -> None:
    run(requests, tmp_path, ScriptedEngine(frozenset({3})))
    [line] = [
        value
        for value in map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
        if value["id"] == "batch_req_3"
    ]
    assert line["custom_id"] == "r3"
    assert line["error"]["message"] == "line 3: too long"


def test_a_superseded_attempt_writes_nothing_more(requests: list[Request], tmp_path: Path) -> None:
    class Superseding(ScriptedEngine):
        def step(self):  # type: ignore[no-untyped-def]
            if len(self.seen) == 20:
                Fence(tmp_path / "owner", 2)
            return super().step()

    with pytest.raises(WorkerError, match="attempt 2"):
        run(requests, tmp_path, Superseding())
    before = ids(tmp_path)
    run(requests, tmp_path, attempt=3)
    assert ids(tmp_path)[: len(before)] == before
    assert len(ids(tmp_path)) == ROWS


def test_another_inputs_results_are_not_touched(requests: list[Request], tmp_path: Path) -> None:
    foreign = '{"id": "batch_req_1", "custom_id": "other", "response": null, "error": null}\n'
    (tmp_path / "out.jsonl").write_text(foreign)
    with pytest.raises(WorkerError) as caught:
        run(requests, tmp_path)
    assert caught.value.reason == "OutputUnwritable"
    assert (tmp_path / "out.jsonl").read_text() == foreign


def test_a_full_disk_leaves_whole_lines(
    requests: list[Request], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    original = os.fsync

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(descriptor)

    output = opened(tmp_path, Fence(tmp_path / "owner", 1), requests)
    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(output, "_fence", type("Open", (), {"check": lambda self: None})())
    with pytest.raises(OSError, match="No space"):
        BatchRunner(ScriptedEngine(), output, Progress("rows", NoTenant()), "m", 0).run(
            [request for request in requests if request.problem is None]
        )
    assert (tmp_path / "out.jsonl").read_bytes().endswith(b"\n")
    assert len(ids(tmp_path)) == 4


def test_what_an_older_attempt_wrote_until_the_fence_was_taken_is_not_run_again(
    requests: list[Request], tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    fence = Fence(tmp_path / "owner", 1)
    older = opened(tmp_path, fence, requests)
    seen = read_written(path, requests)
    BatchRunner(ScriptedEngine(), older, Progress("rows", NoTenant()), "m", 0).run(requests[:3])
    output = Output(path, Fence(tmp_path / "owner", 2), requests, seen)
    assert output.done == {1, 2, 3}
    assert len(ids(tmp_path)) == 3


def test_an_output_that_came_before_the_fence_is_read(requests: list[Request], tmp_path: Path) -> None:
    nothing = read_written(tmp_path / "out.jsonl", requests)
    run(requests, tmp_path)
    output = Output(tmp_path / "out.jsonl", Fence(tmp_path / "owner", 2), requests, nothing)
    assert len(output.done) == ROWS


def test_an_output_that_went_before_the_fence_is_written_anew(requests: list[Request], tmp_path: Path) -> None:
    run(requests, tmp_path)
    whole = read_written(tmp_path / "out.jsonl", requests)
    (tmp_path / "out.jsonl").unlink()
    output = Output(tmp_path / "out.jsonl", Fence(tmp_path / "owner", 2), requests, whole)
    assert not output.done
