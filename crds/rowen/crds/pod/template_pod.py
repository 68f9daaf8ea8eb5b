"""The pod that Rowen makes of a job's template."""

import copy
import re
from collections.abc import Mapping
from typing import Any

from rowen.crds.job.memory_share import MemoryShare, job_share
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.names import HARVEST_RESOURCE, LIBRARY_FILE, PRELOAD_ENV, WORKER_CONTAINER

GRACE_SECONDS = 5
_SEPARATORS = re.compile(r"[:\s]+")


def template_pod_spec(job: OfflineJobSpec) -> dict[str, Any]:
    """The PodSpec of a template job, without the pin to its node."""
    spec: dict[str, Any] = copy.deepcopy((job.template or {}).get("spec") or {})
    spec["restartPolicy"] = "Never"
    spec.setdefault("terminationGracePeriodSeconds", GRACE_SECONDS)
    tenant = spec["containers"][0]
    tenant.setdefault("name", WORKER_CONTAINER)
    memory = job_share(job)
    tenant["resources"] = _template_resources(tenant, memory, job.devices)
    environment = [*preloading_environment(tenant), *memory.environment]
    if environment:
        tenant["env"] = environment
    return spec


def _template_resources(tenant: dict[str, Any], memory: MemoryShare, devices: int) -> dict[str, Any]:
    """The tenant's own resources with the devices, and with the job's memory where it says none itself."""
    resources = tenant.get("resources") or {}
    limits = {"memory": memory.limit, **(resources.get("limits") or {}), HARVEST_RESOURCE: str(devices)}
    if not memory.pool_bytes:
        return {**resources, "limits": limits}
    return {**resources, "requests": {**(resources.get("requests") or {}), "memory": memory.request}, "limits": limits}


def preloading_environment(container: Mapping[str, Any]) -> list[dict[str, Any]]:
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
