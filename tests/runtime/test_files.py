"""Files are replaced whole, and nobody else's file is touched on the way."""

import errno
import os
import signal
from pathlib import Path

import pytest

from rowen.runtime.files import write_atomically


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_it_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    write_atomically(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert names(tmp_path) == {"x"}


def test_a_users_files_are_not_taken_for_parts(tmp_path: Path) -> None:
    mine = {"x.part", ".x.part", f".y.{'0' * 32}.part", f".x.{'0' * 31}.part", f".x.{'0' * 32}.part.bak", ".xy.part"}
    for name in mine:
        (tmp_path / name).write_text(name)
    write_atomically(tmp_path / "x", b"new")
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


def test_what_a_killed_attempt_left_goes_with_the_next_write(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os.fsync = lambda _descriptor: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        write_atomically(tmp_path / "x", b"killed")
        os._exit(0)
    os.waitpid(child, 0)
    assert len(names(tmp_path)) == 1
    write_atomically(tmp_path / "x", b"new")
    assert names(tmp_path) == {"x"}
