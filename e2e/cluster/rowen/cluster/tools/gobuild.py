"""Programs that are built from Go modules, into a cache with a stamp per group."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from rowen.cluster.errors import ClusterError
from rowen.cluster.layout import Layout
from rowen.cluster.process.shell import run

KUBERNETES = "1.34.4"
MODULE = Path(__file__).parents[3] / "go"
_VERSION = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES.split(".")
# Without these a cluster calls itself v0.0.0, and charts that ask for a version refuse it.
_FLAGS = f"-s -w -X {_VERSION}.gitVersion=v{KUBERNETES} -X {_VERSION}.gitMajor={_MAJOR} -X {_VERSION}.gitMinor={_MINOR}"
# As helm's own Makefile does. Without them `helm template` takes the cluster for v1.20, and the chart refuses that.
_HELM_FLAGS = " ".join(
    f"-X helm.sh/helm/v3/pkg/{package}.k8sVersion{part}={number}"
    for package in ("chartutil", "lint/rules")
    for part, number in (("Major", _MAJOR), ("Minor", _MINOR))
)


@dataclass(frozen=True)
class Group:
    """Programs built by one command, from a module in `folder` or, with a `version`, from one of the world."""

    name: str
    programs: tuple[str, ...]
    packages: tuple[str, ...]
    version: str = ""
    folder: str = "."
    flags: str = _FLAGS
    """The linker's."""

    def stamp(self) -> str:
        """Changes when the group has to be built again."""
        digest = hashlib.sha256("\0".join((*self.packages, self.version, self.flags)).encode())
        if not self.version:
            for source in self._sources():
                digest.update(source.read_bytes())
        return digest.hexdigest()[:16]

    def _sources(self) -> list[Path]:
        module = MODULE / self.folder
        own = [module / package for package in self.packages if package.startswith(".")]
        return [module / "go.sum", *(file for package in own for file in sorted(package.glob("*.go")))]


def _kubernetes(*programs: str) -> tuple[str, ...]:
    return tuple(f"k8s.io/kubernetes/cmd/{program}" for program in programs)


_NODE = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
SERVERS = Group("servers", ("kube-apiserver", "etcd"), (*_kubernetes("kube-apiserver"), "go.etcd.io/etcd/server/v3"))
NODE = Group("node", (*_NODE, "pause", "criimage"), (*_kubernetes(*_NODE), "./pause", "./criimage"))
KUBECTL = Group("kubectl", ("kubectl",), _kubernetes("kubectl"))
HELM = Group("helm", ("helm",), ("helm.sh/helm/v3/cmd/helm",), "v3.22.0", flags=f"{_FLAGS} {_HELM_FLAGS}")
KUBECONFORM = Group("kubeconform", ("kubeconform",), ("github.com/yannh/kubeconform/cmd/kubeconform",), "v0.8.0")
# The S3 server of the tests; it serves folders.
VERSITYGW = Group("versitygw", ("versitygw",), ("github.com/versity/versitygw/cmd/versitygw",), "v1.8.0")
COREDNS = Group("coredns", ("coredns",), (".",), folder="coredns")
KIND = Group("kind", ("kind",), ("sigs.k8s.io/kind",), "v0.33.0")


def built(layout: Layout, group: Group) -> bool:
    """Whether the cache holds the group as it is described now."""
    stamp = _stamp_path(layout, group)
    there = all((layout.bin / program).exists() for program in group.programs)
    return there and stamp.exists() and stamp.read_text() == group.stamp()


def build(layout: Layout, group: Group) -> None:
    """Build a group; the first of them takes minutes, later ones seconds."""
    if shutil.which("go") is None:
        raise ClusterError("Go is not installed; it is what builds Kubernetes here")
    scratch = layout.root / "build" / group.name
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    log = layout.logs / f"build-{group.name}.log"
    if group.version:
        packages = [f"{package}@{group.version}" for package in group.packages]
        command = ["go", "install", "-trimpath", "-ldflags", group.flags, *packages]
    else:
        command = ["go", "build", "-trimpath", "-ldflags", group.flags, "-o", f"{scratch}/", *group.packages]
    environment = {"GOBIN": str(scratch), "GOFLAGS": ""}
    run(command, timeout=3600, env=environment, cwd=MODULE / group.folder, log=log)
    if (scratch / "server").exists():
        (scratch / "server").rename(scratch / "etcd")
    layout.bin.mkdir(parents=True, exist_ok=True)
    for program in group.programs:
        (scratch / program).replace(layout.bin / program)
    _stamp_path(layout, group).write_text(group.stamp())
    shutil.rmtree(scratch)


def _stamp_path(layout: Layout, group: Group) -> Path:
    return layout.bin / f".{group.name}.stamp"
