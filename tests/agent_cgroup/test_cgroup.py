"""Where a pod's cgroup is: from paths as kubelets and runtimes make them, and on the kernel that runs the tests."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest
from agent_cgroup.rig import Group
from gate.rig import until

from rowen.node_agent.attach.cgroup import Cgroups, CgroupsMissingError, PodCgroup, PodPath, paths_of, pod_path

UID = "8dbc75d1-3a9f-4d2c-9b1e-0c5f7a6e2b40"
OTHER = "11111111-2222-3333-4444-555555555555"
STATIC = "3f1c2ab94d5e6f708192a3b4c5d6e7f8"
LOW = UID.replace("-", "_")
CONTAINER = "0f9e8d7c" * 8
CONTROLLERS = ("freezer", "cpuacct", "cpu")


def found(path: str, uid: str = UID, *, complete: bool = True) -> PodPath:
    return PodPath(uid, PurePosixPath(path), complete)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        # The kubelet's cgroupfs driver: guaranteed, burstable, best effort, static, a kubelet with a cgroup root.
        (f"/kubepods/pod{UID}/{CONTAINER}", found(f"kubepods/pod{UID}")),
        (f"/kubepods/burstable/pod{UID}/{CONTAINER}", found(f"kubepods/burstable/pod{UID}")),
        (f"/kubepods/besteffort/pod{UID}/{CONTAINER}", found(f"kubepods/besteffort/pod{UID}")),
        (f"/kubepods/burstable/pod{STATIC}/{CONTAINER}", found(f"kubepods/burstable/pod{STATIC}", STATIC)),
        (f"/n2/kubepods/besteffort/pod{UID}/{CONTAINER}", found(f"n2/kubepods/besteffort/pod{UID}")),
        (f"/kubelet/kubepods/burstable/pod{UID}/{CONTAINER}", found(f"kubelet/kubepods/burstable/pod{UID}")),
        (f"/docker/{CONTAINER}/kubelet/kubepods/pod{UID}/c", found(f"docker/{CONTAINER}/kubelet/kubepods/pod{UID}")),
        (f"/kubepods/pod{UID}/crio-{CONTAINER}", found(f"kubepods/pod{UID}")),
        (f"/kubepods/pod{UID}", found(f"kubepods/pod{UID}")),
        # Its systemd driver, with containerd and with CRI-O, and in kind's nodes.
        (
            f"/kubepods.slice/kubepods-pod{LOW}.slice/cri-containerd-{CONTAINER}.scope",
            found(f"kubepods.slice/kubepods-pod{LOW}.slice"),
        ),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{LOW}.slice/crio-{CONTAINER}.scope/container",
            found(f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{LOW}.slice"),
        ),
        (
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
            f"kubelet-kubepods-besteffort-pod{LOW}.slice/cri-containerd-{CONTAINER}.scope",
            found(
                "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
                f"kubelet-kubepods-besteffort-pod{LOW}.slice"
            ),
        ),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{STATIC}.slice/docker-{CONTAINER}.scope",
            found(f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{STATIC}.slice", STATIC),
        ),
        # What a pod makes within its own cgroup does not make it another pod.
        (f"/kubepods/pod{UID}/c/kubepods/pod{OTHER}", found(f"kubepods/pod{UID}")),
        (f"/kubepods/pod{UID}/c/kubepods-pod{OTHER.replace('-', '_')}.slice", found(f"kubepods/pod{UID}")),
        # Seen from a cgroup namespace: siblings in one class of service, and pods of others.
        (f"/../../pod{UID}/{CONTAINER}", found(f"pod{UID}", complete=False)),
        (f"/../../../besteffort/pod{UID}/{CONTAINER}", found(f"besteffort/pod{UID}", complete=False)),
        (f"/../../../../kubepods/pod{UID}/{CONTAINER}", found(f"kubepods/pod{UID}", complete=False)),
        (
            f"/../../kubepods-besteffort-pod{LOW}.slice/cri-containerd-{CONTAINER}.scope",
            found(f"kubepods-besteffort-pod{LOW}.slice", complete=False),
        ),
        # No pod.
        ("/", None),
        ("", None),
        ("/init.scope", None),
        ("/system.slice/containerd.service", None),
        (f"/docker/{CONTAINER}", None),
        ("/kubepods", None),
        ("/kubepods/burstable", None),
        ("/kubepods.slice/kubepods-burstable.slice", None),
        ("/../other-container", None),
        (f"/../{CONTAINER}/pod{UID}", None),
        ("/../..", None),
        # Not where a kubelet puts it, or not as it names it.
        (f"/pod{UID}", None),
        (f"/user.slice/pod{UID}", None),
        (f"/burstable/pod{UID}", None),
        (f"/kubepods/guaranteed/pod{UID}", None),
        (f"/kubepods/burstable/burstable/pod{UID}", None),
        (f"/kubepods/pod{LOW}", None),
        (f"/kubepods/pod{UID}x", None),
        (f"/kubepods/xpod{UID}", None),
        (f"/kubepods/pod{UID.upper()}", None),
        (f"/kubepods/pod{UID[:-1]}", None),
        ("/kubepods/podinfo", None),
        (f"/kubepods.slice/kubepods-pod{UID}.slice", None),
        (f"/user.slice/user-pod{LOW}.slice", None),
        (f"/kubepods.slice/kubepods-guaranteed-pod{LOW}.slice", None),
        (f"/kubepods.slice/kubepods-pod{LOW}.slice.d", None),
        (f"/kubepods.slice/xkubepods-pod{LOW}.slice", None),
        # Not a path that the kernel writes for a cgroup that is there.
        (f"kubepods/pod{UID}", None),
        (f"/kubepods/pod{UID}/../pod{OTHER}", None),
        (f"/kubepods/pod{UID} (deleted)", None),
        (f"/kubepods/pod{UID}/{CONTAINER} (deleted)", None),
    ],
)  # fmt: skip
def test_the_pod_of_a_path(path: str, expected: PodPath | None) -> None:
    assert pod_path(path) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "12:freezer:/kubepods/podx\n4:cpu,cpuacct:/kubepods/podx\n1:name=systemd:/a\n0::/\n",
            {"freezer": "/kubepods/podx", "cpu": "/kubepods/podx", "cpuacct": "/kubepods/podx", "name=systemd": "/a",
             "": "/"},
        ),
        ("0::/kubepods.slice/a:b\n", {"": "/kubepods.slice/a:b"}),
        ("", {}),
        ("freezer:/a\nnonsense\n0:freezer\n", {}),
    ],
)  # fmt: skip
def test_the_paths_of_a_process(text: str, expected: dict[str, str]) -> None:
    assert paths_of(text) == expected


class Node:
    """A made-up /sys/fs/cgroup and /proc."""

    def __init__(self, folder: Path, version: int, controllers: Sequence[str] = CONTROLLERS) -> None:
        """`controllers`: that are mounted with version 1."""
        self.root, self.proc = folder / "cgroup", folder / "proc"
        self.bases = [self.root] if version == 2 else [self.root / name for name in controllers]
        self.version = version
        for base in self.bases:
            base.mkdir(parents=True)
            (base / "cgroup.procs").touch()
        if version == 2:
            (self.root / "cgroup.controllers").touch()

    def make(self, path: str) -> PodCgroup:
        for base in self.bases:
            (base / path).mkdir(parents=True)
        return self.at(path)

    def at(self, path: str, uid: str = UID) -> PodCgroup:
        return PodCgroup(uid, *(base / path for base in self.bases), *([None] if self.version == 2 else []))

    def process(self, path: str, pid: int = 7) -> None:
        (self.proc / str(pid)).mkdir(parents=True)
        lines = f"0::{path}\n" if self.version == 2 else f"3:freezer:{path}\n2:cpuacct:{path}\n0::/elsewhere\n"
        (self.proc / str(pid) / "cgroup").write_text(lines)

    @property
    def cgroups(self) -> Cgroups:
        return Cgroups(self.root, self.proc)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(tmp_path, request.param)


def test_a_process_leads_to_its_pod(node: Node) -> None:
    pod = node.make(f"kubepods/burstable/pod{UID}")
    node.process(f"/kubepods/burstable/pod{UID}/{CONTAINER}")
    assert node.cgroups.of_process(7) == pod


@pytest.mark.parametrize("seen", [f"/../../pod{UID}/c", f"/../../../burstable/pod{UID}/c", f"/x/kubepods/pod{UID}/c"])
def test_a_path_that_does_not_lead_there_from_here_is_looked_for(node: Node, seen: str) -> None:
    pod = node.make(f"n2/kubepods/burstable/pod{UID}")
    node.process(seen)
    assert node.cgroups.of_process(7) == pod


@pytest.mark.parametrize("path", ["/", "/system.slice/kubelet.service", f"/kubepods/pod{UID}/c (deleted)"])
def test_a_process_outside_of_pods_has_no_cgroup(node: Node, path: str) -> None:
    node.make(f"kubepods/pod{UID}")
    node.process(path)
    assert node.cgroups.of_process(7) is None


def test_a_process_that_is_gone_has_none(node: Node) -> None:
    assert node.cgroups.of_process(7) is None


def test_a_pod_whose_directory_is_gone_has_none(node: Node) -> None:
    node.process(f"/kubepods/pod{UID}/c")
    assert node.cgroups.of_process(7) is None


@pytest.mark.parametrize(
    "path",
    [
        f"kubepods/pod{UID}",
        f"kubepods/besteffort/pod{UID}",
        f"n2/kubepods/burstable/pod{UID}",
        f"docker/{CONTAINER}/kubelet/kubepods/burstable/pod{UID}",
        f"kubepods.slice/kubepods-pod{LOW}.slice",
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{LOW}.slice",
    ],
)
def test_a_uid_leads_to_its_pod(node: Node, path: str) -> None:
    node.make(f"kubepods/burstable/pod{OTHER}/{CONTAINER}")
    pod = node.make(path)
    assert node.cgroups.of_uid(UID) == pod
    assert node.cgroups.of_uid(STATIC) is None


def test_a_pod_is_not_found_within_another(node: Node) -> None:
    node.make(f"kubepods/pod{OTHER}/c/kubepods/pod{UID}")
    assert node.cgroups.of_uid(UID) is None


@pytest.mark.parametrize(("levels", "is_found"), [(6, True), (7, False)])
def test_the_search_ends_at_the_eighth_level(node: Node, levels: int, *, is_found: bool) -> None:
    path = "/".join(["x"] * levels) + f"/kubepods/pod{UID}"
    pod = node.make(path)
    assert node.cgroups.of_uid(UID) == (pod if is_found else None)


def test_a_link_is_not_followed(node: Node) -> None:
    node.make("kubepods")
    (node.bases[0] / "kubepods" / f"pod{UID}").symlink_to(node.root)
    assert node.cgroups.of_uid(UID) is None


def test_with_version_1_both_directories_are_needed(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    (node.bases[0] / "kubepods" / f"pod{UID}").mkdir(parents=True)
    node.process(f"/kubepods/pod{UID}/c")
    assert node.cgroups.of_process(7) is None
    assert node.cgroups.of_uid(UID) is None


@pytest.mark.parametrize("there", [[], ["freezer"], ["cpuacct"], ["unified"]])
def test_a_folder_without_cgroups_is_refused(tmp_path: Path, there: list[str]) -> None:
    for name in there:
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    with pytest.raises(CgroupsMissingError, match=rf"{tmp_path} has neither .* expected the node's /sys/fs/cgroup"):
        Cgroups(tmp_path)


# With the kernel that runs the tests.

LOOK = """
import sys
from collections.abc import Sequence
from pathlib import Path
from rowen.node_agent.attach.cgroup import Cgroups, paths_of, pod_path
print(next(path for path in paths_of(Path(f"/proc/{sys.argv[2]}/cgroup").read_text()).values() if "pod" in path))
print(Cgroups(Path(sys.argv[1])).of_process(int(sys.argv[2])))
"""


def _root(group: Group) -> Path:
    return group.directory.parent.parent if group.version == 1 else group.directory.parent


@pytest.fixture
def pod_process(group: Group) -> tuple[int, PodCgroup]:
    """A process in a container of a pod, and where it has to be found."""
    process = group.run("1", inside=group.nested(f"kubepods/burstable/pod{UID}/{CONTAINER}"))
    until(lambda: process.pid in group.left(), "the process is there")
    path = f"kubepods/burstable/pod{UID}"
    others = (base and base / path for base in (group.cpuacct, group.cpu))
    return process.pid, PodCgroup(UID, group.directory / path, *others)


def test_a_pod_of_this_kernel_is_found(group: Group, pod_process: tuple[int, PodCgroup]) -> None:
    pid, expected = pod_process
    cgroups = Cgroups(_root(group))
    assert cgroups.of_process(pid) == expected
    assert cgroups.of_uid(UID) == expected
    assert cgroups.of_process(os.getpid()) is None


@pytest.mark.parametrize("own", [f"kubepods/burstable/pod{OTHER}/own", f"kubepods/pod{OTHER}/own", "agents"])
def test_an_agent_in_a_cgroup_namespace_of_its_own_finds_it(
    group: Group, pod_process: tuple[int, PodCgroup], own: str
) -> None:
    pid, expected = pod_process

    def enter() -> None:
        for directory in inside:
            (directory / "cgroup.procs").write_text("0")

    inside = group.nested(own)
    words = ["unshare", "--cgroup", sys.executable, "-c", LOOK, str(_root(group)), str(pid)]
    said = subprocess.run(words, preexec_fn=enter, capture_output=True, text=True, check=True, timeout=60)
    seen, answer = said.stdout.splitlines()
    assert seen.startswith("/../")
    assert answer == repr(expected)
