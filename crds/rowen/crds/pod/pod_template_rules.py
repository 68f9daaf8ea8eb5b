"""The rules of a `podTemplate`, for one that no API server has seen; see `job_rules`."""

import re
from collections.abc import Collection, Iterator

from rowen.crds.base import ApiModel
from rowen.crds.names import MANAGED_BY_LABEL, PRELOAD_ENV
from rowen.crds.pod import pod_template


def broken_pod_rules(model: ApiModel) -> Iterator[str]:
    """What was expected, as the API server says it, of each rule that this part of a `podTemplate` breaks."""
    match model:
        case pod_template.PodMetadata():
            yield from _of_metadata(model)
        case pod_template.PodSpec() if not _mounts_are_there(model):
            yield pod_template.MOUNTS_RULE
        case pod_template.Volume() if re.search(pod_template.OWN_VOLUMES, model.name):
            yield pod_template.VOLUME_RULE
        case pod_template.Variable() if model.name.startswith(pod_template.OWN_VARIABLES):
            yield pod_template.VARIABLE_RULE
        case pod_template.Variable() if model.name == PRELOAD_ENV and model.value_from is not None:
            yield pod_template.PRELOAD_RULE
        case pod_template.Resources():
            yield from _of_resources({*(model.requests or ()), *(model.limits or ())})
        case pod_template.VolumeMount() if re.search(pod_template.OWN_PATHS, model.mount_path):
            yield pod_template.PATH_RULE


def _of_metadata(metadata: pod_template.PodMetadata) -> Iterator[str]:
    labels, annotations = metadata.labels or {}, metadata.annotations or {}
    if MANAGED_BY_LABEL in labels or any(key.startswith(pod_template.OWN_PREFIX) for key in labels):
        yield pod_template.LABELS_RULE
    if any(key.startswith(pod_template.OWN_PREFIX) for key in annotations):
        yield pod_template.ANNOTATIONS_RULE


def _of_resources(names: Collection[str]) -> Iterator[str]:
    if "memory" in names:
        yield pod_template.MEMORY_RULE
    if any(name.startswith(pod_template.OWN_PREFIX) for name in names):
        yield pod_template.DEVICES_RULE


def _mounts_are_there(spec: pod_template.PodSpec[str]) -> bool:
    volumes = {volume.name for volume in spec.volumes or ()}
    return all(mount.name in volumes for container in spec.containers or () for mount in container.volume_mounts or ())
