"""Which processes a group has, read while groups come and go."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rowen.cluster.process import cgroup


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hierarchy with a group, two groups in it, and a process in each."""
    for pid, folder in enumerate(("node", "node/a", "node/b"), start=7):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "cgroup.procs").write_text(f"{pid}\n")
    monkeypatch.setattr(cgroup, "_all_trees", lambda: [tmp_path])
    return tmp_path


def test_members_are_of_the_group_and_of_all_below_it(tree: Path) -> None:
    assert cgroup.members("node") == {7, 8, 9}
    assert cgroup.members("node/b") == {9}
    assert cgroup.members("nowhere") == set()


def test_a_group_that_goes_away_while_it_is_read_has_no_members(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir: Callable[[Any], Any] = os.scandir

    def gone_before(path: Any) -> Any:
        if str(path) == str(tree / "node/a"):
            (tree / "node/a/cgroup.procs").unlink()
            (tree / "node/a").rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", gone_before)
    assert cgroup.members("node") == {7, 9}
    assert not (tree / "node/a").exists()
