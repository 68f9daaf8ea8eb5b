"""Only the newest attempt writes."""

from pathlib import Path

import pytest

from rowen.crds.worker import ExitCode
from rowen.runtime.failure import WorkerError
from rowen.runtime.fence import Fence


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


def test_a_damaged_owner_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "owner").write_text('{"attempt": "x"')
    Fence(tmp_path / "owner", 1).check()
