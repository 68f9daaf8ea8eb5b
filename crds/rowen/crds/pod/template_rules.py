"""The rules of a user's part of a job's pod: what ends the job as `InvalidTemplate`, and what is said of it before.

The schema keeps a template, and the affinity of a podTemplate, as they are, so the API server cannot enforce them.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any

from pydantic import Field, ValidationError

from rowen.crds.base import ReadModel
from rowen.crds.faults import faults
from rowen.crds.job.memory_share import job_share
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.names import (
    ENGINE_POD_ENV,
    ENGINE_RIDE_SOCKET_ENV,
    ENGINE_SOCKET_ENV,
    ENGINE_URL_ENV,
    HARVEST_RESOURCE,
    LIBRARY_ENV,
    ONLINE_RESOURCE,
    POOL_BYTES_ENV,
    PRELOAD_ENV,
    RIDE_RESOURCE,
    RIDE_SOCKET_ENV,
    TENANT_SOCKETS_ENV,
)
from rowen.crds.pod.pod_template import WorkerTemplate

_MOST_FAULTS = 5
_PLUGIN = "Rowen's device plugin"
# Who sets what; a container's own environment would override the device plugin's.
_RESERVED = {
    LIBRARY_ENV: _PLUGIN,
    ENGINE_SOCKET_ENV: _PLUGIN,
    TENANT_SOCKETS_ENV: _PLUGIN,
    ENGINE_RIDE_SOCKET_ENV: _PLUGIN,
    RIDE_SOCKET_ENV: _PLUGIN,
    ENGINE_URL_ENV: "Rowen, in a job that rides",
    ENGINE_POD_ENV: "Rowen, in a job that rides",
    POOL_BYTES_ENV: "Rowen, from spec.memoryLimit",
}
# Devices that the scheduler did not count would come with a slot, and a preload, of their own.
_OTHERS_DEVICES = (ONLINE_RESOURCE, RIDE_RESOURCE)
_DEVICES = (HARVEST_RESOURCE, *_OTHERS_DEVICES)
_ONE_CONTAINER = (
    f"must not be asked for; Rowen gives the job's devices, as {HARVEST_RESOURCE}, to the first container alone"
)


class _Variable(ReadModel):
    name: str
    value: str | None = None
    value_from: Any = None


class _Resources(ReadModel):
    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None


class _Container(ReadModel):
    env: list[_Variable] | None = None
    resources: _Resources | None = None


class _Term(ReadModel):
    match_fields: list[Any] | None = None


class _Required(ReadModel):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(ReadModel):
    required_during_scheduling_ignored_during_execution: _Required | None = None


class _Affinity(ReadModel):
    node_affinity: _NodeAffinity | None = None


class _Spec(ReadModel):
    containers: Annotated[list[_Container], Field(min_length=1)]
    init_containers: list[_Container] | None = None
    affinity: _Affinity | None = None


class _Metadata(ReadModel):
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class _Template(ReadModel):
    """The parts of a PodTemplateSpec that Rowen itself reads; the API server judges the rest."""

    metadata: _Metadata | None = None
    spec: _Spec


def template_faults(spec: OfflineJobSpec) -> list[tuple[str, str]]:
    """What is wrong with the user's part of the pod: of the first few faults the field and what is to be said."""
    if spec.template is None:
        return _overlay_faults(spec.pod_template)
    try:
        pod = _Template.model_validate_json(json.dumps(spec.template)).spec
    except ValidationError as error:
        return _shape_faults("template", error)
    return list(islice(_faults(pod, shares_pool=job_share(spec).pool_bytes > 0), _MOST_FAULTS))


def _overlay_faults(template: WorkerTemplate | None) -> list[tuple[str, str]]:
    """The pin to the job's node is put into the affinity, whatever the API server has said of that before."""
    affinity = template.spec.affinity if template and template.spec else None
    try:
        _Affinity.model_validate_json(json.dumps(affinity or {}))
    except ValidationError as error:
        return _shape_faults("podTemplate.spec.affinity", error)
    return []


def _shape_faults(where: str, error: ValidationError) -> list[tuple[str, str]]:
    return [(f"{where}.{fault.field}", fault.words) for fault in faults(error)][:_MOST_FAULTS]


def _faults(spec: _Spec, *, shares_pool: bool) -> Iterator[tuple[str, str]]:
    for number, variable in enumerate(spec.containers[0].env or ()):
        if variable.name == PRELOAD_ENV and variable.value_from is not None:
            field = f"template.spec.containers[0].env[{number}].valueFrom"
            yield field, f"{PRELOAD_ENV} must be a plain value; Rowen puts its gate library in front of it"
    if shares_pool:
        rule = "must not be set beside spec.memoryLimit; spec.memory is the request and spec.memoryLimit the limit"
        yield from _resource_faults(spec.containers[0], "template.spec.containers[0]", ("memory",), rule)
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers or [])):
        for number, container in enumerate(containers):
            field, tenant = f"template.spec.{kind}[{number}]", container is spec.containers[0]
            yield from _variable_faults(container, field)
            yield from _resource_faults(container, field, _OTHERS_DEVICES if tenant else _DEVICES, _ONE_CONTAINER)


def _variable_faults(container: _Container, field: str) -> Iterator[tuple[str, str]]:
    for number, variable in enumerate(container.env or ()):
        if variable.name in _RESERVED:
            name = variable.name
            yield f"{field}.env[{number}]", f"{name} is set by {_RESERVED[name]}; a template must not set it"


def _resource_faults(container: _Container, field: str, refused: Sequence[str], rule: str) -> Iterator[tuple[str, str]]:
    resources = container.resources or _Resources()
    for kind, amounts in (("limits", resources.limits or {}), ("requests", resources.requests or {})):
        for name in refused:
            if name in amounts:
                yield f"{field}.resources.{kind}", f"{name} {rule}"
