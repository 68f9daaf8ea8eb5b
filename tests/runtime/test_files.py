"""Files are replaced whole, and nobody else's file is touched on the way."""

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from rowen.crds.job.worker import ExitCode
from rowen.runtime.failure import WorkerError
from rowen.runtime.files import remove_parts, write_atomically


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_it_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    write_atomically(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert names(tmp_path) == {"x"}


def left_part(path: Path) -> str:
    """The name of what an attempt leaves that is killed while it writes the file."""
    before = names(path.parent)
    child = os.fork()
    if child == 0:
        os.fsync = lambda _descriptor: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        write_atomically(path, b"killed")
        os._exit(0)
    os.waitpid(child, 0)
    [part] = names(path.parent) - before
    return part


def test_a_users_files_are_not_taken_for_parts(tmp_path: Path) -> None:
    part = left_part(tmp_path / "x")
    mine = {"x.part", ".x.part", part[:-6] + ".part", part + ".bak", "a" + part, part.replace("-", "_")}
    for name in mine:
        (tmp_path / name).write_text(name)
    write_atomically(tmp_path / "x", b"new")
    remove_parts([tmp_path / "x"])
    assert names(tmp_path) == mine | {"x"}
    assert all((tmp_path / name).read_text() == name for name in mine)


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "x").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"old"
    assert names(tmp_path) == {"x"}


def test_what_killed_attempts_left_of_a_file_is_removed(tmp_path: Path) -> None:
    left_part(tmp_path / "x")
    left_part(tmp_path / "x")
    other = left_part(tmp_path / "y")
    remove_parts([tmp_path / "x", tmp_path / "z"])
    assert names(tmp_path) == {other}


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127, "x"])
def test_a_name_may_take_all_the_room(name: str, tmp_path: Path) -> None:
    assert left_part(tmp_path / name).startswith(".")
    write_atomically(tmp_path / name, b"new")
    remove_parts([tmp_path / name])
    assert names(tmp_path) == {name}


def test_another_write_of_the_file_takes_nothing_away(tmp_path: Path) -> None:
    part = left_part(tmp_path / "x")
    write_atomically(tmp_path / "x", b"new")
    assert names(tmp_path) == {"x", part}


def _while_it_writes(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    def meanwhile(_descriptor: int) -> None:
        monkeypatch.undo()
        happens()

    monkeypatch.setattr(os, "fsync", meanwhile)


def test_an_attempt_whose_part_is_gone_is_superseded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"old")
    _while_it_writes(monkeypatch, lambda: remove_parts([tmp_path / "x"]))
    with pytest.raises(WorkerError, match=str(tmp_path / "x")) as caught:
        write_atomically(tmp_path / "x", b"new")
    assert (caught.value.reason, caught.value.code) == ("Superseded", ExitCode.RETRY)
    assert (tmp_path / "x").read_bytes() == b"old"


def test_a_folder_that_is_gone_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    _while_it_writes(monkeypatch, lambda: shutil.rmtree(tmp_path / "out"))
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "out" / "x", b"new")
