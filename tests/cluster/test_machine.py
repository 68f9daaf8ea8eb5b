"""A machine that will not do is told so in a line, before minutes are spent on building anything."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rowen.cluster.errors import ClusterError
from rowen.cluster.layout import CHECKOUT, Layout
from rowen.cluster.modes import existing, kind, local, mode
from rowen.cluster.process import cgroup
from rowen.cluster.tools import tools


def up(**variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rowen.cluster", "up"],
        env=variables, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_make_looks_at_the_machine_first() -> None:
    planned = subprocess.run(
        ["make", "-n", "cluster"], cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True
    ).stdout.splitlines()
    assert [line.partition("rowen.cluster ")[2] for line in planned if "-m rowen.cluster" in line] == ["up"]


def test_kind_without_docker_builds_nothing(tmp_path: Path) -> None:
    done = up(CLUSTER="kind", PATH=str(tmp_path), ROWEN_DEV_ROOT=str(tmp_path / "root"))
    assert done.returncode == 1
    assert "needs a Docker engine" in done.stderr
    assert not (tmp_path / "root/bin").exists()


def test_a_machine_without_cgroup_v1_builds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object, **__: object) -> None:
        pytest.fail("tools are built")

    monkeypatch.setattr(tools, "ensure", build)
    monkeypatch.setattr(cgroup, "_mount_lines", lambda _: ["cgroup2 /sys/fs/cgroup cgroup2 rw 0 0"])
    with pytest.raises(ClusterError, match=r"boot with systemd\.unified_cgroup_hierarchy=0"):
        local.up(Layout(tmp_path))


@pytest.mark.parametrize("up", [local.up, kind.up, existing.up])
def test_a_machine_that_will_do_gets_the_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, up: Callable[[Layout], None]
) -> None:
    def build(layout: Layout) -> None:
        raise ClusterError(f"built in {layout.bin}")

    monkeypatch.setattr(tools, "ensure", build)
    monkeypatch.setattr(cgroup, "_mount_lines", lambda _: ["cgroup /sys/fs/cgroup/cpu cgroup rw 0 0"])
    monkeypatch.setattr(mode, "docker_answers", lambda: True)
    monkeypatch.setenv("KUBECONFIG", "/production")
    with pytest.raises(ClusterError, match=f"built in {tmp_path}"):
        up(Layout(tmp_path))


def test_a_missing_permission_is_told_in_one_line() -> None:
    """Nobody, root included, makes a folder here."""
    done = up(CLUSTER="local", PATH="/usr/bin:/bin", ROWEN_DEV_ROOT="/sys/kernel/rowen")
    assert done.returncode == 1
    told = r"error: /sys/kernel/rowen: (Operation not permitted|Permission denied); CLUSTER=local needs root\n"
    assert re.fullmatch(told, done.stderr)
