"""Fixtures: cgroups of either version."""

import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_cgroup.rig import Group, Hierarchy, hierarchy, sweep

ROOT = Path("/sys/fs/cgroup")


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, linked statically: no library can be loaded into it."""
    made = tmp_path_factory.mktemp("work") / "work"
    compiler = sysconfig.get_config_var("CC").split()[0]
    source = str(Path(__file__).parent / "work.c")
    subprocess.run([compiler, "-static", "-O1", "-pthread", source, "-o", str(made)], check=True, timeout=60)
    return made


@pytest.fixture(scope="session")
def unified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hierarchy | None]:
    """Cgroups of version 2; on a machine that has none mounted, mounted for the tests."""
    found = hierarchy(2, ROOT)
    if found is not None:
        yield found
        return
    at = tmp_path_factory.mktemp("cgroup2")
    mounted = subprocess.run(["mount", "-t", "cgroup2", "none", str(at)], capture_output=True, check=False, timeout=60)
    yield hierarchy(2, ROOT)
    if mounted.returncode == 0:
        subprocess.run(["umount", str(at)], check=True, timeout=60)


@pytest.fixture(params=[(1, True), (2, True), (2, False)], ids=["v1", "v2", "v2-without-kill"])
def group(request: pytest.FixtureRequest, unified: Hierarchy | None, work: Path, tmp_path: Path) -> Iterator[Group]:
    version, kills = request.param
    tree = hierarchy(1, ROOT) if version == 1 else unified
    if tree is None:
        pytest.skip(f"no cgroups of version {version} can be made here")
    sweep(tree.all)
    made = Group(tree, work, tmp_path, kills=kills)
    yield made
    made.close()
