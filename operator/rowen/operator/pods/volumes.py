"""Claims and models in a pod: mounts at `/volumes/<claim>`, and paths below them."""

from collections.abc import Iterable
from typing import Any

from rowen.crds.common import ModelSource, VolumePath
from rowen.crds.names import VOLUMES_DIRECTORY
from rowen.crds.worker import ModelLocation

Parts = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def mounted_path(claim: str, path: str) -> str:
    """Where a path on a claim is inside a container."""
    return f"{VOLUMES_DIRECTORY}/{claim}/{path}"


def volume_path(place: VolumePath) -> str:
    """Where a file or folder is inside a container."""
    return mounted_path(place.claim_name, place.path)


def model_location(model: ModelSource) -> ModelLocation:
    """Where a model is, for an engine or a worker."""
    if model.hugging_face:
        return ModelLocation(name_or_path=model.hugging_face.repo, revision=model.hugging_face.revision)
    return ModelLocation(name_or_path=mounted_path(str(model.claim_name), str(model.path)))


def claim_volumes(read: Iterable[str | None], written: Iterable[str] = ()) -> Parts:
    """Volumes and mounts: each claim once, read-only unless something is written to it, and `/tmp`."""
    writable = set(written)
    claims = sorted({claim for claim in read if claim} | writable)
    volumes: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}]
    mounts: list[dict[str, Any]] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - the pod's own emptyDir
    for number, claim in enumerate(claims):
        name = f"claim-{number}"
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim}})
        mount: dict[str, Any] = {"name": name, "mountPath": f"{VOLUMES_DIRECTORY}/{claim}"}
        if claim not in writable:
            mount["readOnly"] = True
        mounts.append(mount)
    return volumes, mounts


def offline_environment(model: ModelSource) -> list[dict[str, str]]:
    """Environment of a process that loads a model: nothing is fetched for a model on a volume."""
    environment = {
        "HOME": "/tmp",  # noqa: S108 - the pod's own emptyDir
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if model.hugging_face is None:
        environment["HF_HUB_OFFLINE"] = "1"
    return [{"name": name, "value": value} for name, value in environment.items()]
