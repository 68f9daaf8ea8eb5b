"""What a user's `podTemplate` makes of the pod that Rowen makes, and what is said of it in the user's own fields."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.names import PLUGIN_DIRECTORY, PYTHON_PATH_ENV
from rowen.crds.pod.pod_template import PodTemplate
from rowen.crds.pod.template_pod import preloading_environment

_KEYS = {
    "containers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
}
"""By what entries of two lists are the same one, as Kubernetes' strategic merge has it. Other lists are taken whole."""
_LISTED = re.compile(r"\b((?:containers\[0\]\.)?(env|volumes|volumeMounts|imagePullSecrets))\[(\d+)\]")
_TYPE = r"(?:(?<=field )[A-Z]\w*\.)?"
"""What does not decode is told with the name of a type in front of its field."""


def user_template(job: OfflineJobSpec) -> dict[str, Any]:
    """What the user says of the job's pod, in the shape of a PodTemplateSpec: the `template`, or the `podTemplate`."""
    if job.template is not None:
        return job.template
    return job.pod_template.to_wire() if job.pod_template else {}


def overlaid(spec: Mapping[str, Any], template: PodTemplate[Any] | None) -> dict[str, Any]:
    """The PodSpec with a podTemplate's merged into it; the podTemplate is the stronger one."""
    overlay = template.spec.to_wire() if template and template.spec else {}
    return _merged(spec, overlay)


def overlaid_worker(spec: Mapping[str, Any], job: OfflineJobSpec) -> dict[str, Any]:
    """The PodSpec of a worker with the job's `podTemplate`; its container preloads the gate library first."""
    result = overlaid(spec, job.pod_template)
    (worker,) = result["containers"]
    return {**result, "containers": [{**worker, "env": preloading_environment(worker)}]}


def overlaid_engine(spec: Mapping[str, Any], template: PodTemplate[Any] | None) -> dict[str, Any]:
    """The PodSpec of an engine with its `podTemplate`; Python finds Rowen's plugin before what the user names.

    The device plugin names it, too, but a container's own environment overrides that.
    """
    result = overlaid(spec, template)
    (engine,) = result["containers"]
    return {**result, "containers": [{**engine, "env": [_finding_plugin(entry) for entry in engine["env"]]}]}


def _finding_plugin(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    if entry["name"] != PYTHON_PATH_ENV or entry.get("valueFrom"):
        return entry
    return {**entry, "value": ":".join(filter(None, (PLUGIN_DIRECTORY, entry.get("value"))))}


def told_of(message: str, prefix: str, spec: Mapping[str, Any], user: Mapping[str, Any], root: str = "") -> str:
    """The API server's words on a pod, with the user's fields: below `prefix`, and with the user's own numbers.

    `spec` is the pod's, `user` the user's PodSpec. An entry that is not the user's keeps its number. `root` is where
    the pod is in what was refused.
    """
    field = re.compile(rf"(?<![\w./-])\.?{_TYPE}{re.escape(root)}(?=(?:spec|metadata)\.[a-z])")

    def renumbered(match: re.Match[str]) -> str:
        path, name, number = match[1], match[2], int(match[3])
        merged, own = ((pod.get("containers") or [{}])[0] if path != name else pod for pod in (spec, user))
        return f"{path}[{_own_number(merged.get(name) or (), own.get(name) or (), _KEYS[name], number)}]"

    return field.sub(f"{prefix}.", _LISTED.sub(renumbered, message))


def _own_number(merged: Sequence[Any], own: Sequence[Any], key: str, number: int) -> int:
    names = [entry.get(key) for entry in own]
    name = merged[number].get(key) if number < len(merged) else None
    return names.index(name) if name in names else number


def _merged(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    return {**base, **{name: _value(name, base.get(name), value) for name, value in overlay.items()}}


def _value(name: str, base: Any, overlay: Any) -> Any:
    if isinstance(base, Mapping) and isinstance(overlay, Mapping):
        return _merged(base, overlay)
    if isinstance(base, list) and name in _KEYS:
        return _listed(base, overlay, _KEYS[name], whole=name != "containers")
    return overlay


def _listed(base: list[Any], overlay: list[Any], key: str, *, whole: bool) -> list[Any]:
    """Entries in the order of `base`, new ones behind them. A variable is replaced as a whole: value, or its source."""
    new = {entry[key]: entry for entry in overlay}
    kept = [entry if entry[key] not in new else _joined(entry, new.pop(entry[key]), whole=whole) for entry in base]
    return [*kept, *new.values()]


def _joined(base: Mapping[str, Any], overlay: Mapping[str, Any], *, whole: bool) -> Mapping[str, Any]:
    return overlay if whole else _merged(base, overlay)
