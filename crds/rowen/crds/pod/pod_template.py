"""The `podTemplate` of an engine or a worker: what a user adds to Rowen's pod, in the shape of a PodTemplateSpec.

Where a part is small its fields are declared, so that a wrong one is refused when it is applied; affinity, volumes and
the sources of variables are kept as they are, and the API server judges them in a dry run of the pod.
"""

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field

from rowen.crds.base import ApiModel, Name, rules
from rowen.crds.names import (
    CONTAINER_DIRECTORY,
    MANAGED_BY_LABEL,
    PRELOAD_ENV,
    SECRETS_DIRECTORY,
    TERMINATION_LOG,
    VOLUMES_DIRECTORY,
)

OWN_PREFIX = "rowen.dev/"
OWN_VARIABLES = "ROWEN_"
OWN_VOLUMES = r"^(tmp|(claim|secret)-[0-9]+)$"
# Where Rowen mounts something; what lies below `/tmp` and `/run` is the user's.
_WHOLE = ("/run", "/tmp", TERMINATION_LOG)  # noqa: S108 - the pod's own
_FOLDERS = (CONTAINER_DIRECTORY, VOLUMES_DIRECTORY, SECRETS_DIRECTORY)
OWN_PATHS = f"^({'|'.join([*_WHOLE, *(f'{path}(/.*)?' for path in _FOLDERS)])})/?$"

LABELS_RULE = f"labels must not set Rowen's own: {OWN_PREFIX}... and {MANAGED_BY_LABEL}"
ANNOTATIONS_RULE = f"annotations must not set Rowen's own: {OWN_PREFIX}..."
VARIABLE_RULE = f"name must not begin with {OWN_VARIABLES}; such variables are set by Rowen"
PRELOAD_RULE = f"{PRELOAD_ENV} must be a plain value; Rowen puts its gate library in front of a worker's"
MEMORY_RULE = "memory must not be named; the fields memory and memoryLimit beside podTemplate say it"
DEVICES_RULE = f"{OWN_PREFIX}... must not be named; Rowen asks for the devices itself"
PATH_RULE = f"mountPath must not be Rowen's own: {', '.join([*_WHOLE, *_FOLDERS])}"
VOLUME_RULE = "name must not be that of a volume of Rowen's own: tmp, claim-0 ..., secret-0 ..."
MOUNTS_RULE = "volumeMounts must name volumes of podTemplate.spec.volumes"

_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_Free = Annotated[dict[str, Any], Field(json_schema_extra=_FREE)]
_Texts = Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)]


def _amount(value: object) -> object:
    return str(value) if type(value) is int else value


_AMOUNT = r"^[+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
# The bounds of the text come first: behind a validator they would be missing in the schema. `minimum` is the numbers'.
_Amount = Annotated[
    str,
    Field(max_length=32, pattern=_AMOUNT, json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 0}),
    BeforeValidator(_amount),
]
"""A quantity; a whole number may stand without quotes."""
_Amounts = Annotated[dict[str, _Amount], Field(max_length=16)]
_Key = Annotated[str, Field(max_length=317)]
N = TypeVar("N", bound=str)


def _by(key: str) -> dict[str, Any]:
    """A list with one entry for each value of a key."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class PodMetadata(ApiModel):
    """Labels and annotations of the pod."""

    labels: _Texts | None = None
    """Labels beside Rowen's own."""
    annotations: Annotated[dict[str, Annotated[str, Field(max_length=16384)]], Field(max_length=64)] | None = None
    """Annotations beside Rowen's own."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.labels) || !self.labels.exists(key,"
                f" key.startsWith('{OWN_PREFIX}') || key == '{MANAGED_BY_LABEL}')",
                LABELS_RULE,
            ),
            (
                f"!has(self.annotations) || !self.annotations.exists(key, key.startsWith('{OWN_PREFIX}'))",
                ANNOTATIONS_RULE,
            ),
        )
    )


class Toleration(ApiModel):
    """A taint that the pod tolerates."""

    key: _Key | None = None
    """Key of the taint; every one where absent."""
    operator: Literal["Equal", "Exists"] | None = None
    """Equal where absent."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; every one where absent."""
    toleration_seconds: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """How long it is tolerated with the effect `NoExecute`."""


class PullSecret(ApiModel):
    """A Secret with which images are pulled."""

    name: Name
    """Name of the Secret."""


class Volume(ApiModel):
    """A volume, as a PodSpec has it."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name, for `volumeMounts`."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "x-kubernetes-preserve-unknown-fields": True,
            **rules((f"!self.name.matches('{OWN_VOLUMES}')", VOLUME_RULE)),
        },
    )


class Variable(ApiModel):
    """An environment variable."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    """Name; one of Rowen's that is no `ROWEN_...` is replaced."""
    value: Annotated[str, Field(max_length=32768)] | None = None
    """Value."""
    value_from: _Free | None = None
    """Source of the value, as a container has it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (f"!self.name.startsWith('{OWN_VARIABLES}')", VARIABLE_RULE),
            (f"self.name != '{PRELOAD_ENV}' || !has(self.valueFrom)", PRELOAD_RULE),
        )
    )


class Source(ApiModel):
    """A ConfigMap or Secret of the same namespace."""

    name: Name
    """Its name."""
    optional: bool | None = None
    """Whether it may be absent."""


class Variables(ApiModel):
    """Variables out of a ConfigMap or Secret."""

    prefix: Annotated[str, Field(max_length=256)] | None = None
    """What is put in front of each name."""
    config_map_ref: Source | None = None
    """The ConfigMap."""
    secret_ref: Source | None = None
    """The Secret."""


class Resources(ApiModel):
    """Resources beside memory and Rowen's devices, as `cpu` and `ephemeral-storage`."""

    requests: _Amounts | None = None
    """Requests."""
    limits: _Amounts | None = None
    """Limits."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                " && ".join(f"(!has(self.{part}) || !('memory' in self.{part}))" for part in ("requests", "limits")),
                MEMORY_RULE,
            ),
            (
                " && ".join(
                    f"(!has(self.{part}) || !self.{part}.exists(name, name.startsWith('{OWN_PREFIX}')))"
                    for part in ("requests", "limits")
                ),
                DEVICES_RULE,
            ),
        )
    )


class VolumeMount(ApiModel):
    """A volume in the container."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the volume."""
    mount_path: Annotated[str, Field(max_length=1024, pattern=r"^(/\.?[^/:.][^/:]*)+/?$")]
    """Absolute path, without `.`, `..` and empty parts."""
    read_only: bool | None = None
    """Whether it cannot be written."""
    sub_path: Annotated[str, Field(max_length=1024)] | None = None
    """Folder or file of the volume."""
    sub_path_expr: Annotated[str, Field(max_length=1024)] | None = None
    """The same with variables."""

    model_config = ConfigDict(json_schema_extra=rules((f"!self.mountPath.matches('{OWN_PATHS}')", PATH_RULE)))


class Container(ApiModel, Generic[N]):
    """What is added to Rowen's container."""

    name: N
    """The container."""
    env: Annotated[list[Variable], Field(max_length=64, json_schema_extra=_by("name"))] | None = None
    """Environment variables."""
    env_from: Annotated[list[Variables], Field(max_length=16)] | None = None
    """Variables out of ConfigMaps and Secrets; each is weaker than one of the same name in the container's `env`."""
    resources: Resources | None = None
    """Resources beside memory and Rowen's devices."""
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=32, json_schema_extra=_by("mountPath"))] | None = None
    """Mounts of `volumes`."""


class PodSpec(ApiModel, Generic[N]):
    """What is added to the pod's spec."""

    node_selector: _Texts | None = None
    """Labels that the node has to have."""
    affinity: _Free | None = None
    """Affinity to nodes and pods, as a PodSpec has it."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """Taints that the pod tolerates."""
    image_pull_secrets: Annotated[list[PullSecret], Field(max_length=16, json_schema_extra=_by("name"))] | None = None
    """Secrets with which its images are pulled."""
    priority_class_name: Name | None = None
    """PriorityClass of the pod, for kube-scheduler."""
    service_account_name: Name | None = None
    """ServiceAccount of the pod; its token is not mounted."""
    volumes: Annotated[list[Volume], Field(max_length=32, json_schema_extra=_by("name"))] | None = None
    """Volumes beside Rowen's own."""
    containers: Annotated[list[Container[N]], Field(max_length=1, json_schema_extra=_by("name"))] | None = None
    """The one container."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.containers) || self.containers.all(container, !has(container.volumeMounts)"
                " || container.volumeMounts.all(mount,"
                " has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name)))",
                MOUNTS_RULE,
            )
        )
    )


class PodTemplate(ApiModel, Generic[N]):
    """What is added to the pods that Rowen makes, in the shape of a PodTemplateSpec; merged as Kubernetes merges."""

    metadata: PodMetadata | None = None
    """Labels and annotations."""
    spec: PodSpec[N] | None = None
    """Where it runs, and what is in it."""


EngineTemplate = PodTemplate[Literal["engine"]]
WorkerTemplate = PodTemplate[Literal["worker"]]
