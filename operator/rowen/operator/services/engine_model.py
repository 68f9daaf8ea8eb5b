"""How a model comes to the engine that Rowen runs.

vLLM reads folders and the hub. A model in object storage is copied to the pod's own disk first, by an init container
with Rowen's runtime: so any vLLM will do, and the engine has no credentials of it.
"""

from typing import Any

from rowen.crds.job.place import ModelSource
from rowen.crds.job.worker import ModelLocation
from rowen.crds.names import SECRETS_DIRECTORY
from rowen.operator.pods.security import container_security_context
from rowen.operator.pods.volumes import Parts, claim_volumes, model_location

COPY_CONTAINER = "model"
_COPY = "/tmp/model"  # noqa: S108 - on the pod's own emptyDir
_COPY_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}


def engine_model(model: ModelSource) -> ModelLocation:
    """Where the engine finds its model."""
    if model.uri is None:
        return model_location(model)
    return ModelLocation(name_or_path=f"{_COPY}/{model.uri.rstrip('/').rpartition('/')[2]}")


def hub_environment(model: ModelSource) -> list[dict[str, str]]:
    """Environment by which an engine reads the hub's token out of the mounted Secret."""
    if model.hugging_face is None or model.secret_name is None:
        return []
    return [{"name": "HF_TOKEN_PATH", "value": f"{SECRETS_DIRECTORY}/{model.secret_name}/HF_TOKEN"}]


def pod_volumes(model: ModelSource) -> Parts:
    """The pod's volumes, and the engine's mounts: only the hub's token is the engine's to read."""
    volumes, mounts = claim_volumes([model.claim_name], secrets=[model.secret_name])
    if model.uri is not None:
        _, mounts = claim_volumes([])
    return volumes, mounts


def copy_container(model: ModelSource, image: str) -> dict[str, Any]:
    """The init container that copies a model out of object storage."""
    secret = ["--secret-name", model.secret_name] if model.secret_name else []
    _, mounts = claim_volumes([], secrets=[model.secret_name])
    return {
        "name": COPY_CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "rowen.runtime.storage", str(model.uri), _COPY, *secret],
        "env": [{"name": "HOME", "value": "/tmp"}, {"name": "PYTHONUNBUFFERED", "value": "1"}],  # noqa: S108 - as above
        "resources": _COPY_RESOURCES,
        "securityContext": container_security_context(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
