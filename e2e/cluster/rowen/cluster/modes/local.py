"""CLUSTER=local: two real nodes on this machine, without a container engine."""

import shutil
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rowen.cluster.console import step
from rowen.cluster.errors import ClusterError
from rowen.cluster.images import buildah
from rowen.cluster.layout import CGROUP, Layout
from rowen.cluster.node import network, node
from rowen.cluster.node.node import NODES, Node
from rowen.cluster.node.settings import PAUSE_IMAGE
from rowen.cluster.process import cgroup, daemon
from rowen.cluster.process.shell import wait_until
from rowen.cluster.services import control_plane, dns, pki, registry
from rowen.cluster.tools import tools

# Belongs to one cluster, as opposed to the caches that outlive it.
CLUSTER_STATE = ("etcd", "pki", "config", "pid", "kubeconfig")
NODE_STATE = ("kubelet", "log", "etc")


def up(layout: Layout) -> None:
    """Bring the cluster up, doing only what is missing."""
    cgroup.hierarchies()
    tools.ensure(layout)
    layout.make()
    with step("Certificates") as now:
        identities = (*pki.CONTROL_PLANE, dns.IDENTITY, *(each.identity() for each in NODES))
        if pki.ensure(layout, identities) == 0:
            now.skip("there")
    with step("Network") as now:
        if not network.ensure_host(layout):
            now.skip("there")
    with step("Registry") as now:
        if not registry.start(layout):
            now.skip("running")
    with step("Pause image") as now:
        if not _ensure_pause(layout):
            now.skip("there")
    with step("Control plane") as now:
        if not control_plane.start(layout):
            now.skip("running")
    with step("DNS") as now:
        if not dns.start(layout):
            now.skip("running")
    start_nodes(layout, NODES)


def start_nodes(layout: Layout, nodes: tuple[Node, ...]) -> None:
    """Start nodes together, then wait until each is Ready."""
    began = datetime.now(UTC).replace(microsecond=0)
    started = []
    for each in nodes:
        with step(f"Node {each.name}") as now:
            if node.start(layout, each):
                started.append(each)
            else:
                now.skip("running")
    with step("Nodes ready"):
        for each in nodes:
            since = began if each in started else None
            wait_until(partial(_ready, layout, each.name, since), f"{each.name} Ready", timeout=90, interval=0.5)


def _ready(layout: Layout, name: str, since: datetime | None) -> bool:
    """A node that comes back is still called Ready for a while: only a heartbeat `since` the start counts."""
    for kind in ("kubelet", "containerd", "proxy"):
        if daemon.running(layout, f"{name}-{kind}") is None:
            log = daemon.log_path(layout, f"{name}-{kind}")
            raise ClusterError(f"{name}-{kind} ended: {daemon.last_words(log)}")
    condition = '{.status.conditions[?(@.type=="Ready")]'
    path = f"-o=jsonpath={condition}.status}} {condition}.lastHeartbeatTime}}"
    try:
        status, _, heartbeat = control_plane.kubectl(layout, "get", "node", name, path).partition(" ")
    except ClusterError:
        return False  # the kubelet has not registered the node yet
    return status == "True" and (since is None or datetime.fromisoformat(heartbeat) >= since)


def _ensure_pause(layout: Layout) -> bool:
    repository, _, tag = PAUSE_IMAGE.partition("/")[2].rpartition(":")
    if registry.has(repository, tag):
        return False
    name = "localhost/rowen/pause:1"
    buildah.from_files(layout, name, [(layout.bin / "pause", "/pause")], ["--entrypoint", '["/pause"]'])
    buildah.push_uncompressed(layout, name, PAUSE_IMAGE)
    return True


def down(layout: Layout, *, purge: bool) -> None:
    """Leave nothing running, mounted or routed; `purge` also removes the caches."""
    for each in NODES:
        with step(f"Node {each.name}") as now:
            with suppress(ClusterError):
                node.forget_containers(layout, each)
            killed = node.stop(layout, each)
            now.note = f"{killed} processes"
    with step("Control plane") as now:
        daemon.stop(layout, dns.NAME)
        daemon.stop(layout, registry.NAME)
        now.note = f"{control_plane.stop(layout)} processes"
        cgroup.kill(CGROUP)
        cgroup.remove(CGROUP)
    with step("Network"):
        network.remove_host(layout)
        buildah.unmount(layout)
    with step("State"):
        _remove_state(layout, purge=purge)
    left = leftovers(layout)
    if left:
        raise ClusterError(f"left behind: {', '.join(left)}")


def _remove_state(layout: Layout, *, purge: bool) -> None:
    for target in node.BINDS.values():
        with suppress(OSError):
            Path(target).rmdir()  # only the mount points we made are empty
    shutil.rmtree(layout.root / "build", ignore_errors=True)
    if purge:
        shutil.rmtree(layout.root, ignore_errors=True)
        return
    for name in CLUSTER_STATE:
        _remove(layout.root / name)
    for each in NODES:
        for name in NODE_STATE:
            _remove(layout.node(each.name) / name)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def leftovers(layout: Layout) -> list[str]:
    """What `down` should have removed and did not."""
    processes = [f"process {pid}" for pid in sorted(cgroup.members(CGROUP))]
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if str(layout.root) in line]
    groups = [str(tree / CGROUP) for tree in cgroup.hierarchies() if (tree / CGROUP).exists()]
    return processes + mounts + groups + network.leftovers()
