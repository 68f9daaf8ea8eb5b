"""Valid manifests that tests bend until they are refused."""

import copy
from typing import Any

Manifest = dict[str, Any]

_MODEL = {"claimName": "models", "path": "tiny"}
_FINE_TUNE = {
    "baseModel": _MODEL,
    "dataset": {"claimName": "data", "path": "train.jsonl"},
    "output": {"claimName": "data", "path": "adapter"},
}
_SLO = {"ttft": {"target": "500ms"}, "tpot": {"target": "50ms"}}
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox:1", "command": ["true"]}]}}
BATCH = {
    "model": _MODEL,
    "input": {"claimName": "data", "path": "in.jsonl"},
    "output": {"claimName": "data", "path": "out.jsonl"},
}
WORKLOAD_REF = {"kind": "Deployment", "name": "engine"}


def offline_job(name: str = "tune", **spec: Any) -> Manifest:
    """A fine-tuning job; fields of the spec given as None are left out."""
    return _manifest("OfflineJob", name, {"fineTune": _FINE_TUNE, **spec})


def online_service(name: str = "chat", **spec: Any) -> Manifest:
    """A service whose engine Rowen runs; fields of the spec given as None are left out."""
    return _manifest("OnlineService", name, {"engine": {"model": _MODEL}, "slo": _SLO, **spec})


def changed(manifest: Manifest, path: str, value: Any) -> Manifest:
    """The manifest with the field at the dotted path set."""
    result = copy.deepcopy(manifest)
    *parents, last = path.split(".")
    node = result
    for name in parents:
        node = node.setdefault(name, {})
    node[last] = value
    return result


def _manifest(kind: str, name: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": "rowen.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": copy.deepcopy({key: value for key, value in spec.items() if value is not None}),
    }
