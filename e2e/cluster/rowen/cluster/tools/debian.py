"""Programs that come as Debian packages."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rowen.cluster.errors import ClusterError
from rowen.cluster.process.shell import run

# Program -> package. A package counts as there when its program is.
ENVTEST = {"prometheus": "prometheus", "promtool": "prometheus"}
CLUSTER = {
    "buildah": "buildah",
    "conntrack": "conntrack",
    "containerd": "containerd",
    "debootstrap": "debootstrap",
    "docker-registry": "docker-registry",
    "ip": "iproute2",
    "nft": "nftables",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "runc": "runc",
    "skopeo": "skopeo",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}
POLICY = Path("/usr/sbin/policy-rc.d")


def missing(programs: dict[str, str]) -> list[str]:
    """Packages whose program is not found."""
    return sorted({package for program, package in programs.items() if not _found(program)})


def install(packages: list[str]) -> None:
    """Install packages without letting apt start their services."""
    if shutil.which("apt-get") is None:
        raise ClusterError(f"install {', '.join(packages)} with your package manager: this is not a Debian system")
    if os.geteuid() != 0:
        raise ClusterError(f"installing {', '.join(packages)} needs root")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    with _no_services():
        run(["apt-get", "update", "-qq"], timeout=300, env=quiet)
        run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], timeout=900, env=quiet)


def _found(program: str) -> bool:
    return Path(program).exists() if program.startswith("/") else shutil.which(program) is not None


@contextmanager
def _no_services() -> Iterator[None]:
    """Debian asks policy-rc.d before it starts a service; ours says no, and goes away afterwards."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(POLICY.stat().st_mode | stat.S_IXUSR)
    try:
        yield
    finally:
        POLICY.unlink()
