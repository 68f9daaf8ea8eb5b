"""Where a pod's CPU time can be limited, with version 1."""

from dataclasses import replace
from pathlib import Path

from agent_cgroup.test_cgroup import UID, Node

from rowen.node_agent.attach.cgroup import PodCgroup


def test_a_pod_of_a_node_without_the_cpu_controller_cannot_be_limited(tmp_path: Path) -> None:
    node = Node(tmp_path, 1, ("freezer", "cpuacct"))
    pod = node.make(f"kubepods/pod{UID}")
    assert (node.cgroups.of_uid(UID), pod.cpu) == (pod, None)


def test_a_pod_that_has_no_directory_of_the_cpu_controller_cannot_be_limited(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    pod = node.make(f"kubepods/pod{UID}")
    assert pod.cpu is not None
    pod.cpu.rmdir()
    assert node.cgroups.of_uid(UID) == replace(pod, cpu=None)


def test_controllers_that_are_mounted_together_are_one_directory_by_two_names(tmp_path: Path) -> None:
    """As distributions do: `cpu` and `cpuacct` are links to `cpu,cpuacct`."""
    node = Node(tmp_path, 1, ("freezer", "cpu,cpuacct"))
    for name in ("cpu", "cpuacct"):
        (node.root / name).symlink_to("cpu,cpuacct")
    path = f"kubepods/pod{UID}"
    for base in node.bases:
        (base / path).mkdir(parents=True)
    expected = PodCgroup(UID, *(node.root / name / path for name in ("freezer", "cpuacct", "cpu")))
    assert node.cgroups.of_uid(UID) == expected
