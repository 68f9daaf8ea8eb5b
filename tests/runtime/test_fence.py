"""Only the newest attempt writes."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from rowen.crds.job.worker import ExitCode
from rowen.runtime.failure import WorkerError
from rowen.runtime.fence import Fence
from rowen.runtime.files import write_atomically


def test_a_newer_attempt_takes_over(tmp_path: Path) -> None:
    old = Fence(tmp_path / "owner", 1)
    old.check()
    new = Fence(tmp_path / "owner", 2)
    new.check()
    with pytest.raises(WorkerError, match="attempt 2 has taken over the output of attempt 1") as caught:
        old.check()
    assert caught.value.code is ExitCode.RETRY


def test_an_older_attempt_that_starts_late_is_refused(tmp_path: Path) -> None:
    Fence(tmp_path / "owner", 2)
    with pytest.raises(WorkerError, match="attempt 2"):
        Fence(tmp_path / "owner", 1)


def test_the_same_attempt_restarted_takes_over(tmp_path: Path) -> None:
    first = Fence(tmp_path / "owner", 1)
    Fence(tmp_path / "owner", 1).check()
    with pytest.raises(WorkerError):
        first.check()


def test_another_job_takes_over_whatever_its_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWEN_JOB_UID", "a")
    Fence(tmp_path / "owner", 5)
    monkeypatch.setenv("ROWEN_JOB_UID", "b")
    Fence(tmp_path / "owner", 1).check()


def test_a_released_output_belongs_to_nobody(tmp_path: Path) -> None:
    fence = Fence(tmp_path / "owner", 3)
    fence.release()
    with pytest.raises(WorkerError):
        fence.check()
    Fence(tmp_path / "owner", 1)


def test_who_has_lost_the_output_does_not_release_it(tmp_path: Path) -> None:
    old = Fence(tmp_path / "owner", 1)
    new = Fence(tmp_path / "owner", 2)
    old.release()
    new.check()


def test_a_former_attempts_file_is_known_again(tmp_path: Path) -> None:
    (tmp_path / "owner").write_text('{"job": "", "attempt": 3, "claim": "c"}')
    with pytest.raises(WorkerError, match="attempt 3"):
        Fence(tmp_path / "owner", 2)
    Fence(tmp_path / "owner", 3).check()


def test_who_takes_the_output_removes_what_killed_attempts_left(tmp_path: Path) -> None:
    for name in ("owner", "result", "anothers"):
        child = os.fork()
        if child == 0:
            os.fsync = lambda _descriptor: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
            write_atomically(tmp_path / name, b"killed")
            os._exit(0)
        os.waitpid(child, 0)
    Fence(tmp_path / "owner", 1, [tmp_path / "result"]).release()
    assert len(list(tmp_path.iterdir())) == 1
    Fence(tmp_path / "owner", 1, [tmp_path / "anothers"]).release()
    assert not list(tmp_path.iterdir())


def test_an_attempt_that_has_lost_the_output_cannot_commit_what_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken_over(_descriptor: int) -> None:
        monkeypatch.undo()
        Fence(tmp_path / "owner", 2, [tmp_path / "result"])

    Fence(tmp_path / "owner", 1, [tmp_path / "result"]).check()
    monkeypatch.setattr(os, "fsync", taken_over)
    with pytest.raises(WorkerError) as caught:
        write_atomically(tmp_path / "result", b"of attempt 1")
    assert (caught.value.reason, caught.value.code) == ("Superseded", ExitCode.RETRY)
    assert {path.name for path in tmp_path.iterdir()} == {"owner"}


def _file(path: Path, content: bytes) -> None:
    path.write_bytes(content)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: _file(path, b""),
        lambda path: _file(path, b"me"),
        lambda path: _file(path, b'{"job": "a", "attempt": 1}'),
        lambda path: _file(path, b'{"job": "a", "attempt": 1, "claim": "c", "more": 1}'),
        lambda path: _file(path, b'{"job": "a", "attempt": "1", "claim": "c"}'),
        lambda path: path.symlink_to("elsewhere"),
        lambda path: path.mkdir(),
        lambda path: os.mkfifo(path),
    ],
    ids=["empty", "text", "too little", "too much", "attempt as text", "link", "folder", "FIFO"],
)
def test_a_file_that_no_worker_wrote_is_left_alone(make: Callable[[Path], None], tmp_path: Path) -> None:
    _file(tmp_path / "elsewhere", b'{"job": "a", "attempt": 1, "claim": "c"}')
    make(tmp_path / "owner")
    before = (tmp_path / "owner").lstat()
    with pytest.raises(WorkerError, match=str(tmp_path / "owner")) as caught:
        Fence(tmp_path / "owner", 1)
    assert (caught.value.reason, caught.value.code) == ("OutputUnwritable", ExitCode.USER_ERROR)
    after = (tmp_path / "owner").lstat()
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)
    assert {path.name for path in tmp_path.iterdir()} == {"owner", "elsewhere"}
