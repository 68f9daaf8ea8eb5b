"""One node: a holder of namespaces, and containerd, kubelet and kube-proxy inside them.

Every node sees the standard paths (/run, /var/lib/kubelet, …) as its own, as real
machines do. They are mounts in the node's private mount namespace, so that killing
the node's processes leaves no mount, socket or network behind: losing a node is
the same as pulling its plug.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rowen.cluster import files
from rowen.cluster.errors import ClusterError
from rowen.cluster.layout import CGROUP, CONTROL_CPUS, HOST_ADDRESS, REGISTRY, Layout
from rowen.cluster.node import network, settings
from rowen.cluster.process import cgroup, daemon, probe
from rowen.cluster.process.daemon import Daemon
from rowen.cluster.process.shell import run, succeeds
from rowen.cluster.services import pki

# Folder below the node's own directory -> where the node sees it.
BINDS = {
    "kubelet": "/var/lib/kubelet",
    "containerd": "/var/lib/containerd",
    "log/pods": "/var/log/pods",
    "log/containers": "/var/log/containers",
    "etc/cni": "/etc/cni/net.d",
    "etc/certs.d": "/etc/containerd/certs.d",
}
READY = "/run/rowen-node-ready"


@dataclass(frozen=True)
class Node:
    """A node's name and addresses; `isolated` gives it a network namespace of its own."""

    name: str
    address: str
    pod_network: str
    isolated: bool

    @property
    def group(self) -> str:
        return f"{CGROUP}/{self.name}"

    @property
    def system_group(self) -> str:
        return f"{self.group}/system"

    def identity(self) -> pki.Identity:
        return pki.kubelet_identity(self.name, self.address)

    def daemons(self) -> tuple[str, ...]:
        """In the order they are started."""
        return tuple(f"{self.name}-{part}" for part in ("holder", "containerd", "kubelet", "proxy"))


NODES = (
    Node("rowen-node-1", HOST_ADDRESS, "10.244.1.0/24", isolated=False),
    Node("rowen-node-2", "10.245.0.2", "10.244.2.0/24", isolated=True),
)


def find(name: str) -> Node:
    for node in NODES:
        if node.name == name:
            return node
    raise ClusterError(f"no node {name!r}; there are {', '.join(node.name for node in NODES)}")


def start(layout: Layout, node: Node) -> bool:
    """Have the node's processes run; returns whether any had to be started."""
    _write_configs(layout, node)
    cgroup.ensure(node.group)
    cgroup.ensure(node.system_group, CONTROL_CPUS)  # also undoes what an interrupted `images` left
    pid = _ensure_holder(layout, node)
    if node.isolated:
        network.connect(node.name, pid, node.address, node.pod_network)
        for other in NODES:
            if not other.isolated:
                network.route_on_node(pid, other.pod_network)
    enter = inside(node, pid)
    changed = daemon.ensure(layout, _containerd(layout, node, enter))
    socket = f"/proc/{pid}/root{settings.CONTAINERD_SOCKET}"
    daemon.wait_ready(layout, f"{node.name}-containerd", lambda: probe.runtime_answers(socket), timeout=60)
    changed |= daemon.ensure(layout, _kubelet(layout, node, enter))
    changed |= daemon.ensure(layout, _proxy(layout, node, enter))
    return changed


def inside(node: Node, pid: int) -> tuple[str, ...]:
    """The words that run a program inside the node."""
    networks = (f"--net=/proc/{pid}/ns/net",) if node.isolated else ()
    return ("nsenter", f"--mount=/proc/{pid}/ns/mnt", *networks, "--")


def enter(layout: Layout, node: Node) -> tuple[str, ...]:
    """`inside`, for a node that must be running."""
    known = daemon.running(layout, f"{node.name}-holder")
    if known is None:
        raise ClusterError(f"{node.name} is not running; run `python -m rowen.cluster up`")
    return inside(node, known.pid)


def images(layout: Layout, node: Node, verb: str, references: Sequence[str]) -> None:
    """Pull or remove images."""
    program = (str(layout.bin / "criimage"), verb, f"unix://{settings.CONTAINERD_SOCKET}")
    run([*enter(layout, node), *program, *references], timeout=1800)


def stop(layout: Layout, node: Node) -> int:
    """Pull the plug: SIGKILL everything of the node at once; returns how many processes that were."""
    killed = cgroup.kill(node.group)
    for name in node.daemons():
        daemon.stop(layout, name)
    if node.isolated:
        network.disconnect(node.name)
    cgroup.remove(node.group)
    return killed


def forget_containers(layout: Layout, node: Node) -> None:
    """Before `down`: let containerd drop its containers, so that only images stay on disk."""
    if daemon.running(layout, f"{node.name}-containerd") is None:
        return
    for name in (f"{node.name}-kubelet", f"{node.name}-proxy"):
        daemon.stop(layout, name)
    cgroup.kill(f"{node.group}/kubepods")
    ctr = [*enter(layout, node), "ctr", "-n", "k8s.io"]
    tasks = run([*ctr, "tasks", "ls", "-q"]).split()
    containers = run([*ctr, "containers", "ls", "-q"]).split()
    if tasks:
        succeeds([*ctr, "tasks", "delete", "-f", *tasks])
    if containers:
        succeeds([*ctr, "containers", "delete", *containers])


def _ensure_holder(layout: Layout, node: Node) -> int:
    name = f"{node.name}-holder"
    private = ("--mount", "--net") if node.isolated else ("--mount",)
    script = layout.configs / f"{node.name}-mounts.sh"
    argv = ("unshare", *private, "--propagation", "private", "--", "sh", str(script))
    if daemon.running(layout, name) is None and cgroup.members(node.group):
        stop(layout, node)  # the namespaces are gone, so what is left of the node is of no use
        cgroup.ensure(node.group)
    daemon.ensure(layout, Daemon(name, argv, node.system_group, (script,)))
    known = daemon.running(layout, name)
    marker = Path(f"/proc/{known.pid if known else 0}/root{READY}")
    daemon.wait_ready(layout, name, marker.exists, timeout=10)
    if known is None:
        raise ClusterError(f"{name} ended: {daemon.last_words(daemon.log_path(layout, name))}")
    return known.pid


def mount_script(folder: Path) -> str:
    """`/` is shared inside the node, as systemd makes it, so that mounts propagate into containers."""
    lines = ["set -e", "mount --make-rshared /", "mount -t tmpfs -o mode=755 tmpfs /run"]
    lines += [f"mount --bind {folder / source} {target}" for source, target in BINDS.items()]
    lines += ["mkdir -p /run/netns /run/rowen /run/lock", f"touch {READY}", "exec sleep infinity"]
    return "\n".join(lines) + "\n"


def _write_configs(layout: Layout, node: Node) -> None:
    folder = layout.node(node.name)
    for source, target in BINDS.items():
        (folder / source).mkdir(parents=True, exist_ok=True)
        Path(target).mkdir(parents=True, exist_ok=True)
    files.write(folder / "etc/certs.d" / REGISTRY / "hosts.toml", settings.registry_host())
    files.write(folder / "etc/cni/10-rowen.conflist", settings.cni(node.pod_network))
    kubeconfig = pki.write_kubeconfig(layout, "proxy", layout.configs / "proxy.kubeconfig")
    pki.write_kubeconfig(layout, node.identity().name, layout.configs / f"{node.name}-kubelet.kubeconfig")
    texts = {
        "mounts.sh": mount_script(folder),
        "containerd.toml": settings.containerd(),
        "kubelet.json": settings.kubelet(node.name, node.address, node.group, str(layout.pki)),
        "proxy.json": settings.kube_proxy(node.name, node.address, str(kubeconfig)),
    }
    for suffix, text in texts.items():
        files.write(layout.configs / f"{node.name}-{suffix}", text)


def _containerd(layout: Layout, node: Node, enter: tuple[str, ...]) -> Daemon:
    config = layout.configs / f"{node.name}-containerd.toml"
    argv = (*enter, "containerd", "--config", str(config))
    return Daemon(f"{node.name}-containerd", argv, node.system_group, (config,))


def _kubelet(layout: Layout, node: Node, enter: tuple[str, ...]) -> Daemon:
    config = layout.configs / f"{node.name}-kubelet.json"
    argv = (
        *enter,
        str(layout.bin / "kubelet"),
        f"--config={config}",
        f"--kubeconfig={layout.configs / f'{node.name}-kubelet.kubeconfig'}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
    )
    return Daemon(f"{node.name}-kubelet", argv, node.system_group, (config,))


def _proxy(layout: Layout, node: Node, enter: tuple[str, ...]) -> Daemon:
    config = layout.configs / f"{node.name}-proxy.json"
    argv = (*enter, str(layout.bin / "kube-proxy"), f"--config={config}")
    return Daemon(f"{node.name}-proxy", argv, node.system_group, (config,))
