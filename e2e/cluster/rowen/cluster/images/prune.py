"""Dropping images that nothing refers to any more; a changed dependency layer takes its size four times."""

import json

from rowen.cluster.console import step
from rowen.cluster.images import buildah, debootstrap
from rowen.cluster.layout import REGISTRY, Layout
from rowen.cluster.node import node
from rowen.cluster.node.node import NODES
from rowen.cluster.node.settings import PAUSE_IMAGE
from rowen.cluster.process import daemon
from rowen.cluster.process.shell import run
from rowen.cluster.services import control_plane, registry

PREFIX = f"{REGISTRY}/rowen/"


def prune(layout: Layout) -> None:
    """Keep the images last built and those pods use; remove the others from nodes, store and registry."""
    kept = kept_references(layout.images.read_text() if layout.images.exists() else "{}", _used(layout))
    with step("Nodes") as now:
        now.note = f"{sum(_prune_node(layout, each, kept) for each in NODES)} removed"
    with step("Build store") as now:
        now.note = f"{_prune_store(layout, kept)} removed"
    with step("Registry") as now:
        now.note = f"{_prune_registry(layout, kept)} removed"


def kept_references(written: str, used: set[str]) -> frozenset[str]:
    """References that stay."""
    return frozenset({PAUSE_IMAGE, *json.loads(written).values(), *used})


def _used(layout: Layout) -> set[str]:
    path = "-o=jsonpath={.items[*].spec['initContainers','containers'][*].image}"
    return set(control_plane.kubectl(layout, "get", "pods", "-A", path).split())


def _prune_node(layout: Layout, each: node.Node, kept: frozenset[str]) -> int:
    there = run([*node.enter(layout, each), "ctr", "-n", "k8s.io", "images", "ls", "-q"]).split()
    stale = [name for name in there if name.startswith(PREFIX) and name not in kept and "@" not in name]
    if stale:
        node.images(layout, each, "remove", stale)
    return len(stale)


def _prune_store(layout: Layout, kept: frozenset[str]) -> int:
    buildah.buildah(layout, "rm", "--all")  # what interrupted builds left, which holds on to their images
    listing = buildah.buildah(layout, "images", "--format", "{{.Name}}:{{.Tag}}").split()
    ours = [name for name in listing if name.startswith("localhost/rowen/") and name != debootstrap.BASE]
    stale = [name for name in ours if name.replace("localhost", REGISTRY, 1) not in kept]
    if stale:
        buildah.buildah(layout, "rmi", *stale, timeout=300)
    return len(stale)


def _prune_registry(layout: Layout, kept: frozenset[str]) -> int:
    """Manifests go through the API; the layers behind them only while the registry is stopped."""
    stale = [name for name in registry.references() if name.startswith(PREFIX) and name not in kept]
    for name in stale:
        registry.delete(name)
    if stale:
        daemon.stop(layout, registry.NAME)
        run(["docker-registry", "garbage-collect", "--delete-untagged", layout.configs / "registry.json"], timeout=600)
        registry.start(layout)
    return len(stale)
