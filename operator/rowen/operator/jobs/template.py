"""What Rowen reads and changes in a user's pod template."""

import re
from collections.abc import Mapping
from typing import Any

from rowen.crds.names import LIBRARY_FILE, PRELOAD_ENV, WORKER_CONTAINER

_SEPARATORS = re.compile(r"[:\s]+")


def container_names(template: Mapping[str, Any]) -> list[str]:
    """Names of the template's own containers, init containers included; the tenant has a name in any case."""
    spec = template.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [container.get("name") or WORKER_CONTAINER for container in containers]


def tenant_environment(container: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tenant's own environment, which preloads the gate library first wherever it preloads anything.

    The device plugin preloads the library too, but a container's own environment overrides the plugin's.
    """
    own = [_preloading(entry) if entry["name"] == PRELOAD_ENV else entry for entry in container.get("env") or ()]
    # A source may hold a preload of its own, which nobody here can see; an explicit value is stronger.
    if container.get("envFrom") and all(entry["name"] != PRELOAD_ENV for entry in own):
        own.append({"name": PRELOAD_ENV, "value": LIBRARY_FILE})
    return own


def _preloading(entry: Mapping[str, Any]) -> dict[str, Any]:
    own = [name for name in _SEPARATORS.split(entry.get("value") or "") if name not in ("", LIBRARY_FILE)]
    return {**entry, "value": ":".join([LIBRARY_FILE, *own])}
