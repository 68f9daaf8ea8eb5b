"""CLUSTER=kind: two nodes in containers. Never run on the machine this was written on."""

import json

from rowen.cluster.console import step
from rowen.cluster.errors import ClusterError
from rowen.cluster.layout import Layout
from rowen.cluster.modes import mode
from rowen.cluster.process.shell import run
from rowen.cluster.tools import gobuild, tools

NAME = "rowen"


def up(layout: Layout) -> None:
    """Create the cluster unless it is there, and write its kubeconfig."""
    if not mode.docker_answers():
        raise ClusterError("CLUSTER=kind needs a Docker engine, and `docker info` does not answer")
    tools.ensure(layout)
    with step("Go: kind") as now:
        if gobuild.built(layout, gobuild.KIND):
            now.skip("built")
        else:
            gobuild.build(layout, gobuild.KIND)
    with step("kind cluster") as now:
        if NAME in _kind(layout, "get", "clusters").split():
            now.skip("there")
        else:
            _create(layout)
        _kind(layout, "export", "kubeconfig", "--name", NAME, "--kubeconfig", str(layout.kubeconfig))


def down(layout: Layout) -> None:
    with step("kind cluster"):
        _kind(layout, "delete", "cluster", "--name", NAME)
        layout.kubeconfig.unlink(missing_ok=True)


def load(layout: Layout, image: str) -> None:
    """Bring an image of the Docker engine to the nodes."""
    _kind(layout, "load", "docker-image", "--name", NAME, image, timeout=1800)


def _create(layout: Layout) -> None:
    """Work runs on the control-plane node too, as in the local cluster."""
    untainted = {"kind": "InitConfiguration", "nodeRegistration": {"taints": []}}
    nodes = [{"role": "control-plane", "kubeadmConfigPatches": [json.dumps(untainted)]}, {"role": "worker"}]
    config = layout.configs / "kind.json"
    config.write_text(json.dumps({"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": nodes}))
    _kind(layout, "create", "cluster", "--name", NAME, "--config", str(config), "--wait", "120s", timeout=900)


def _kind(layout: Layout, *words: str, timeout: float = 120) -> str:
    return run([layout.bin / "kind", *words], timeout=timeout)
