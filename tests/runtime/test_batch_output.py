"""Each row is written exactly once, whatever happens."""

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from runtime.scripted_server import ScriptedServer
from runtime.server import environment

from rowen.runtime.batch.file_output import FileOutput, ResultFile, owner_file
from rowen.runtime.batch.results import problem_result
from rowen.runtime.batch.rows import Rows
from rowen.runtime.batch.runner import BatchRunner, write_problems
from rowen.runtime.failure import WorkerError
from rowen.runtime.fence import Fence
from rowen.runtime.native import NoTenant
from rowen.runtime.worker import Progress

ROWS = 400
BAD_LINE, REFUSED_LINE = 7, 9
REFUSED = frozenset({REFUSED_LINE})
ALL = sorted(f"batch_req_{line}" for line in range(1, ROWS + 1))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    body = {"prompt": "x", "model": "mine"}
    lines = [
        json.dumps({"custom_id": f"r{number}", "method": "POST", "url": "/v1/completions", "body": body})
        for number in range(1, ROWS + 1)
    ]
    lines[BAD_LINE - 1] = "broken"
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    return tmp_path / "in.jsonl"


def opened(source: Path, attempt: int = 1, errors: bool = False) -> FileOutput:
    folder = source.parent
    return FileOutput(source, Rows(source), folder / "out.jsonl", folder / "err.jsonl" if errors else None, attempt)


def run(
    source: Path, server: ScriptedServer | None = None, attempt: int = 1, errors: bool = False
) -> tuple[Progress, ScriptedServer]:
    server = server or ScriptedServer()
    progress, rows = Progress("rows", NoTenant()), Rows(source)
    output = opened(source, attempt, errors)
    write_problems(rows, output)
    asyncio.run(BatchRunner(server, output, progress, "served").run(rows))
    output.close()
    return progress, server


def ids(source: Path, name: str = "out.jsonl") -> list[str]:
    return [json.loads(line)["id"] for line in source.with_name(name).read_text().splitlines()]


def test_every_row_once_and_the_rest_in_spite_of_a_bad_line(source: Path) -> None:
    progress, server = run(source, ScriptedServer(REFUSED))
    assert sorted(ids(source)) == ALL
    assert (progress.completed, progress.total) == (ROWS, ROWS)
    assert server.most_at_once == 12
    assert server.seen[1] == {"prompt": "x", "model": "served", "seed": 1}
    lines = {value["id"]: value for value in map(json.loads, source.with_name("out.jsonl").read_text().splitlines())}
    assert lines["batch_req_1"]["response"]["body"]["model"] == "mine"
    bad, refused = lines[f"batch_req_{BAD_LINE}"], lines[f"batch_req_{REFUSED_LINE}"]
    assert bad["response"] is None
    assert bad["error"]["message"].startswith(f"in.jsonl:{BAD_LINE}: ")
    assert (refused["error"], refused["response"]["status_code"]) == (None, 400)
    assert refused["response"]["body"]["error"]["message"] == "too long"
    assert not owner_file(source.with_name("out.jsonl")).exists()


def test_failed_rows_have_a_file_of_their_own(source: Path) -> None:
    run(source, ScriptedServer(REFUSED), errors=True)
    assert sorted(ids(source, "err.jsonl")) == sorted([f"batch_req_{BAD_LINE}", f"batch_req_{REFUSED_LINE}"])
    assert sorted(ids(source) + ids(source, "err.jsonl")) == ALL


@pytest.mark.parametrize(
    "body", [{"temperature": 0}, {"seed": 5}, {"seed": None}, {}], ids=["greedy", "own seed", "null", "none"]
)
def test_a_row_that_samples_has_a_seed(body: dict[str, object], tmp_path: Path) -> None:
    row = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x"} | body}
    (tmp_path / "in.jsonl").write_text("\n" + json.dumps(row))
    _, server = run(tmp_path / "in.jsonl")
    assert server.seen[2].get("seed") == (None if "temperature" in body else body.get("seed") or 2)


def test_a_route_that_is_not_served_is_named(source: Path) -> None:
    source.write_text(source.read_text().replace("/v1/completions", "/v1/embeddings", 1))
    _, server = run(source)
    [line] = [line for line in source.with_name("out.jsonl").read_text().splitlines() if '"batch_req_1"' in line]
    message = "line 1: url '/v1/embeddings': this model answers at /v1/completions"
    assert json.loads(line)["error"] == {"code": "invalid_request", "message": message}
    assert 1 not in server.seen


def test_torn_at_any_byte_of_the_last_lines_it_recovers(source: Path) -> None:
    run(source)
    path = source.with_name("out.jsonl")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(b"".join(lines[:-1])) - 3, len(whole), 7):
        path.write_bytes(whole[:cut])
        run(source, attempt=2)
        assert sorted(ids(source)) == ALL


@pytest.mark.parametrize("file", ["out.jsonl", "err.jsonl"])
def test_a_crash_between_the_two_files_leaves_each_row_in_one(file: str, source: Path) -> None:
    """A group goes into one file after the other; of the second any part may be missing."""
    run(source, ScriptedServer(frozenset(range(2, ROWS, 3))), errors=True)
    path = source.with_name(file)
    path.write_bytes(path.read_bytes()[:-700])
    _, server = run(source, ScriptedServer(frozenset(range(2, ROWS, 3))), attempt=2, errors=True)
    assert 0 < len(server.seen) < 20
    assert sorted(ids(source) + ids(source, "err.jsonl")) == ALL
    assert ids(source, "err.jsonl").count("batch_req_2") == 1


def test_a_row_in_both_files_is_no_jobs_output(source: Path) -> None:
    run(source, ScriptedServer(REFUSED), errors=True)
    source.with_name("err.jsonl").write_bytes(source.with_name("out.jsonl").read_bytes())
    with pytest.raises(WorkerError, match="both have the result of line 1"):
        opened(source, 2, errors=True)


def test_one_file_cannot_be_both(source: Path) -> None:
    source.with_name("err.jsonl").symlink_to("out.jsonl")
    source.with_name("out.jsonl").touch()
    with pytest.raises(WorkerError, match="is the output, too"):
        opened(source, errors=True)


def test_a_crash_of_the_server_loses_no_written_row(source: Path) -> None:
    def crash(asked: int) -> None:
        if asked > 300:
            raise RuntimeError("engine died")

    with pytest.raises(RuntimeError, match="engine died"):
        run(source, ScriptedServer(at_each=crash))
    written = set(ids(source))
    _, server = run(source, attempt=2)
    assert sorted(ids(source)) == ALL
    assert not {f"batch_req_{line}" for line in server.seen} & written


WORKER = """
    import os, sys
    from pathlib import Path
    from runtime.test_batch_output import REFUSED, ScriptedServer, run
    from rowen.runtime.batch.file_output import FileOutput
    FileOutput.group_seconds = 0.0
    def told(asked):
        if asked % 5 == 0:
            os.write(1, b".")
    run(Path(sys.argv[1]), ScriptedServer(frozenset(range(1, 400, 3)), told), int(sys.argv[2]), errors=True)
"""


def test_killed_again_and_again_every_row_is_there_once(source: Path) -> None:
    """Killed at any moment of its work, inside of a commit too."""
    command = [sys.executable, "-c", textwrap.dedent(WORKER), str(source)]
    ends, kills = [-signal.SIGKILL], 0
    while ends[-1] == -signal.SIGKILL:
        process = subprocess.Popen([*command, str(kills + 1)], env=environment(), stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.read(2 + 8 * kills)
        process.kill()
        process.stdout.close()
        ends.append(process.wait())
        kills += 1
        assert kills < 30
    assert ends[-1] == 0
    assert kills > 2
    assert sorted(ids(source) + ids(source, "err.jsonl")) == ALL


TERMINATED = """
    import os, signal, sys
    from pathlib import Path
    from rowen.runtime import worker
    from runtime.test_batch_output import ScriptedServer, run
    def told(asked):
        if asked == 200:
            os.kill(os.getpid(), signal.SIGTERM)
    source = Path(sys.argv[1])
    sys.exit(worker.run("rows", lambda progress: run(source, ScriptedServer(at_each=told)), source.with_name("said")))
"""


def test_a_sigterm_ends_it_with_what_is_written_and_no_result(source: Path) -> None:
    source.with_name("said").touch()
    command = [sys.executable, "-c", textwrap.dedent(TERMINATED), str(source)]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert ended.returncode == 1, ended.stderr
    assert not source.with_name("said").read_text()
    _, server = run(source, attempt=2)
    assert len(server.seen) >= ROWS - 200
    assert sorted(ids(source)) == ALL


def test_a_superseded_attempt_writes_nothing_more(source: Path) -> None:
    def supersede(asked: int) -> None:
        if asked == 200:
            Fence(owner_file(source.with_name("out.jsonl")), 2)

    with pytest.raises(WorkerError, match="attempt 2"):
        run(source, ScriptedServer(at_each=supersede))
    before = ids(source)
    run(source, attempt=3)
    assert ids(source)[: len(before)] == before
    assert sorted(ids(source)) == ALL


@pytest.mark.parametrize("name", ["out.jsonl", "err.jsonl"])
def test_another_inputs_results_are_not_touched(name: str, source: Path) -> None:
    foreign = '{"id": "batch_req_1", "custom_id": "other", "response": null, "error": {}}\n'
    source.with_name(name).write_text(foreign)
    with pytest.raises(WorkerError, match=f"{name}:1 is no result of this input") as caught:
        run(source, errors=True)
    assert caught.value.reason == "OutputUnwritable"
    assert source.with_name(name).read_text() == foreign
    assert {path.name for path in source.parent.iterdir()} == {"in.jsonl", name}


def test_a_full_disk_leaves_whole_lines(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = opened(source)
    rows = Rows(source)
    results = [problem_result(rows.row(line), "x" * 100) for line in range(1, 9)]
    output.append(results[:4])
    original: Callable[[int], None] = os.fsync

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(Fence, "check", lambda self: None)
    with pytest.raises(OSError, match="No space"):
        output.append(results[4:])
    monkeypatch.setattr(os, "fsync", original)
    assert ids(source) == [f"batch_req_{line}" for line in range(1, 5)]
    assert [line for line in range(1, 9) if line in output.done] == [1, 2, 3, 4]


def test_what_an_older_attempt_wrote_until_the_fence_was_taken_is_not_run_again(source: Path) -> None:
    rows = Rows(source)
    older = opened(source)
    seen = ResultFile(source.with_name("out.jsonl"), rows)
    older.append([problem_result(rows.row(line), "x") for line in (1, 2, 3)])
    assert not len(seen.written.lines)
    seen.open(Fence(owner_file(source.with_name("out.jsonl")), 2))
    assert [line for line in rows if line in seen.written.lines] == [1, 2, 3]
    assert len(ids(source)) == 3


def test_an_output_that_went_before_the_fence_is_written_anew(source: Path) -> None:
    run(source)
    seen = ResultFile(source.with_name("out.jsonl"), Rows(source))
    source.with_name("out.jsonl").unlink()
    seen.open(Fence(owner_file(source.with_name("out.jsonl")), 2))
    assert not len(seen.written.lines)
