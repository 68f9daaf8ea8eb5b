"""The registry both nodes pull from, so that only changed layers move."""

import json

from rowen.cluster import files
from rowen.cluster.layout import REGISTRY, Layout
from rowen.cluster.node import settings
from rowen.cluster.process import daemon
from rowen.cluster.process.daemon import Daemon
from rowen.cluster.process.probe import answers, fetch

NAME = "registry"
MANIFESTS = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"


def start(layout: Layout) -> bool:
    """Have the registry run and answer; returns whether it had to be started."""
    config = layout.configs / "registry.json"
    files.write(config, settings.registry(str(layout.registry)))
    changed = daemon.ensure(layout, Daemon(NAME, ("docker-registry", "serve", str(config)), configs=(config,)))
    daemon.wait_ready(layout, NAME, lambda: answers(f"http://{REGISTRY}/v2/"), timeout=20)
    return changed


def has(repository: str, tag: str) -> bool:
    """Whether an image is there already."""
    return answers(f"http://{REGISTRY}/v2/{repository}/manifests/{tag}", accept=MANIFESTS)


def references() -> list[str]:
    """Every image, as repository and tag."""
    found = []
    for repository in json.loads(fetch(f"http://{REGISTRY}/v2/_catalog?n=1000").body)["repositories"]:
        tags = json.loads(fetch(f"http://{REGISTRY}/v2/{repository}/tags/list").body)["tags"]
        found += [f"{REGISTRY}/{repository}:{tag}" for tag in tags or []]
    return found


def delete(reference: str) -> None:
    """Remove an image; the space it took comes back with garbage collection."""
    repository, _, tag = reference.partition("/")[2].rpartition(":")
    manifests = f"http://{REGISTRY}/v2/{repository}/manifests"
    digest = fetch(f"{manifests}/{tag}", accept=MANIFESTS).headers["docker-content-digest"]
    fetch(f"{manifests}/{digest}", method="DELETE")
