"""Cgroups that a benchmark makes for its tenants, as far as the machine has them."""

import subprocess
import sys

import pytest
from rig.pod import Pod
from rig.served_device import ServedDevice


def test_a_process_and_its_children_are_in_it():
    try:
        pod = Pod()
    except OSError as error:
        pytest.skip(f"this machine has no cgroups to make: {error}")
    program = "import sys, subprocess; sys.stdin.readline(); subprocess.run(['cat'])"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, text=True) as process:
        pod.join(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        folders = [pod.freezer, *([pod.cpuacct] if pod.cpuacct else [])]
        assert all(str(process.pid) in (folder / "cgroup.procs").read_text().split() for folder in folders)
        process.stdin.close()
        process.wait()
    pod.remove()
    assert not any(folder.exists() for folder in folders)


def test_a_command_is_in_it_from_its_beginning():
    try:
        pod = Pod(limited=True)
    except OSError as error:
        pytest.skip(f"this machine has no cgroups to make: {error}")
    program = "import os, sys; print(os.environ['GIVEN'], open('/proc/self/cgroup').read()); sys.stdin.readline()"
    command = pod.entering([sys.executable, "-c", program], {"GIVEN": "a b"})
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate("\n", timeout=30)
    pod.remove()
    assert said.startswith("a b ")
    assert pod.freezer.name in said


def layout(root, version):
    if version == 2:
        (root / "cgroup.controllers").touch()
    else:
        (root / "freezer").mkdir()
        (root / "cpuacct").mkdir()
    return root


@pytest.mark.parametrize("version", [1, 2])
def test_its_folders_by_version(tmp_path, version):
    pod = Pod(layout(tmp_path, version))
    assert pod.freezer.parent == (tmp_path / "freezer" if version == 1 else tmp_path)
    assert (pod.cpuacct is None) == (version == 2)
    assert not pod.has_share
    (pod.freezer if version == 2 else pod.cpuacct).joinpath("cpu.weight" if version == 2 else "cpu.shares").touch()
    assert pod.has_share


@pytest.mark.parametrize("version", [1, 2])
def test_one_whose_time_can_be_limited(tmp_path, version):
    if version == 1:
        (tmp_path / "cpu").mkdir()
    pod = Pod(layout(tmp_path, version), limited=True)
    assert pod.cpu == (tmp_path / "cpu" / pod.freezer.name if version == 1 else None)


def test_what_cannot_be_limited_is_no_share(served, tmp_path, monkeypatch):
    """Or a benchmark would measure what it compares with."""
    with pytest.raises(RuntimeError, match="tenants have no cgroups"):
        served.let_share(0, shares=True)
    monkeypatch.setattr("rig.served_device.Pod", lambda **_: Pod(layout(tmp_path, 2)))
    monkeypatch.setattr(served.device, "set_pod", lambda *_: None)
    served.make_pods(with_share=True)
    with pytest.raises(RuntimeError, match="cannot limit"):
        served.let_share(0, shares=True)
    served.let_share(0, shares=False)
    (served._pods[0].freezer / "cpu.max").touch()
    served.let_share(0, shares=True)


def test_nothing_is_left_where_it_cannot_be_made(tmp_path):
    (tmp_path / "freezer").mkdir()
    with pytest.raises(FileNotFoundError):
        Pod(tmp_path)
    assert list((tmp_path / "freezer").iterdir()) == []


@pytest.fixture
def served(tmp_path):
    served = ServedDevice(tmp_path / "device", slots=2, cpu=0, backstop=0.05)
    yield served
    served.close()


def test_a_machine_without_cgroups_is_told_of(served, tmp_path, monkeypatch):
    monkeypatch.setattr("rig.served_device.Pod", lambda **_: Pod(tmp_path))
    served.make_pods(with_share=True)
    assert "tenants have no cgroups" in served.without_backstop
    served.adopt(0, 1)  # does nothing


def test_cgroups_that_change_how_the_cpu_is_shared_are_not_used(served, tmp_path, monkeypatch):
    monkeypatch.setattr(Pod, "has_share", True)
    monkeypatch.setattr("rig.served_device.Pod", lambda **_: Pod(layout(tmp_path, 1)))
    served.make_pods(with_share=False)
    assert "a cgroup would change how the CPU is shared" in served.without_backstop
