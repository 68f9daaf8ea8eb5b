"""Where everything lives on disk, and the addresses the local cluster uses."""

import os
from dataclasses import dataclass
from pathlib import Path

NODE_NETWORK = "10.245.0.0/24"
POD_NETWORK = "10.244.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
SERVICE_IP = "10.96.0.1"
HOST_ADDRESS = "10.245.0.1"
API_SERVER = f"https://{HOST_ADDRESS}:6443"
REGISTRY = f"{HOST_ADDRESS}:5000"
BRIDGE = "rowen0"
CGROUP = "rowen-dev"
CONTROL_CGROUP = f"{CGROUP}/control"
# Core 1 of node-1 stands in for a GPU, so nothing of the control plane may run on it.
CONTROL_CPUS = os.environ.get("ROWEN_DEV_CONTROL_CPUS", "0")
DEFAULT_ROOT = "/var/lib/rowen-dev"
# The root of the repository.
CHECKOUT = Path(__file__).parents[4]


@dataclass(frozen=True)
class Layout:
    """All state is below one directory, so that `down --purge` is one removal."""

    root: Path = Path(os.environ.get("ROWEN_DEV_ROOT", DEFAULT_ROOT))

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def etcd(self) -> Path:
        return self.root / "etcd"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def records(self) -> Path:
        return self.root / "pid"

    @property
    def configs(self) -> Path:
        return self.root / "config"

    @property
    def registry(self) -> Path:
        return self.root / "registry"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def images(self) -> Path:
        return self.root / "images.json"

    def lock(self, name: str) -> Path:
        return self.root / f"{name}.lock"

    def node(self, name: str) -> Path:
        return self.root / name

    def make(self) -> None:
        """Create the directories that every command needs."""
        for path in (self.bin, self.pki, self.etcd, self.logs, self.records, self.configs, self.registry):
            path.mkdir(parents=True, exist_ok=True)
        self.pki.chmod(0o700)
