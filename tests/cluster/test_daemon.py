"""What makes a daemon restart, and how files and modes are chosen."""

from pathlib import Path

import pytest

from rowen.cluster import files
from rowen.cluster.errors import ClusterError
from rowen.cluster.images import debootstrap
from rowen.cluster.modes import mode
from rowen.cluster.process import shell
from rowen.cluster.process.daemon import Daemon, last_words


def test_a_daemon_changes_with_its_command_and_its_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("a")
    daemon = Daemon("d", ("program", "--x"), configs=(config,))
    before = daemon.digest()
    assert Daemon("d", ("program", "--y"), configs=(config,)).digest() != before
    assert daemon.digest() == before
    config.write_text("b")
    assert daemon.digest() != before


def test_last_words_are_the_last_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert "wrote nothing" in last_words(log)
    log.write_text("first\nwhy it ended\n\n")
    assert last_words(log).startswith("why it ended")


def test_an_unchanged_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder/file"
    assert files.write(path, "text")
    inode = path.stat().st_ino
    assert not files.write(path, "text")
    assert path.stat().st_ino == inode
    assert files.write(path, "other", mode=0o600)
    assert path.read_text() == "other"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("given", "docker", "expected"), [("local", True, "local"), ("", True, "kind"), ("", False, "local")]
)
def test_mode(monkeypatch: pytest.MonkeyPatch, given: str, docker: bool, expected: str) -> None:
    monkeypatch.setenv("CLUSTER", given)
    monkeypatch.setattr(mode, "docker_answers", lambda: docker)
    assert mode.current() == expected


def test_an_unknown_mode_is_a_plain_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "moon")
    with pytest.raises(ClusterError, match="local, kind, existing"):
        mode.current()


def test_failures_say_what_the_program_said(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"sh -c .*: no such luck"):
        shell.run(["sh", "-c", "echo no such luck >&2; exit 3"])
    with pytest.raises(ClusterError, match="error: why"):
        shell.run(["sh", "-c", "echo error: why; echo and more; exit 1"], log=tmp_path / "log")
    with pytest.raises(ClusterError, match="is not installed"):
        shell.run(["no-such-program-at-all"])


def test_waiting_ends() -> None:
    with pytest.raises(ClusterError, match="the moon: not within 0 s"):
        shell.wait_until(lambda: False, "the moon", timeout=0.05, interval=0.01)


def test_the_base_image_comes_from_the_machines_own_mirror(tmp_path: Path) -> None:
    sources = tmp_path / "debian.sources"
    assert debootstrap.mirror(sources) == []
    sources.write_text("Types: deb\nURIs: mirror://somewhere/debian\nSuites: bookworm\n")
    assert debootstrap.mirror(sources) == ["mirror://somewhere/debian"]
