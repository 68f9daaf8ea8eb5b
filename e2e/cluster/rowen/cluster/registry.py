"""The registry both nodes pull from, so that only changed layers move."""

import urllib.error
import urllib.request

from rowen.cluster import daemon, files, node_config
from rowen.cluster.daemon import Daemon
from rowen.cluster.layout import REGISTRY, Layout

NAME = "registry"
# The machine's proxy settings must not stand between us and a local address.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def start(layout: Layout) -> bool:
    """Have the registry run and answer; returns whether it had to be started."""
    config = layout.configs / "registry.json"
    files.write(config, node_config.registry(str(layout.registry)))
    changed = daemon.ensure(layout, Daemon(NAME, ("docker-registry", "serve", str(config)), configs=(config,)))
    daemon.wait_ready(layout, NAME, lambda: _answers("/v2/"), timeout=20)
    return changed


def has(repository: str, tag: str) -> bool:
    """Whether an image is there already."""
    return _answers(f"/v2/{repository}/manifests/{tag}")


def _answers(path: str) -> bool:
    kinds = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
    request = urllib.request.Request(f"http://{REGISTRY}{path}", method="HEAD", headers={"Accept": kinds})
    try:
        with _DIRECT.open(request, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
