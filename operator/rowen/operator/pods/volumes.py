"""Claims, secrets and models in a pod: mounts at `/volumes/<claim>` and `/secrets/<secret>`, and paths below them."""

from collections.abc import Iterable
from typing import Any

from rowen.crds.job.place import InputPlace, ModelSource, OutputPlace
from rowen.crds.job.worker import Location, ModelLocation
from rowen.crds.names import SECRETS_DIRECTORY, VOLUMES_DIRECTORY

Parts = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def mounted_path(claim: str, path: str) -> str:
    """Where a path on a claim is inside a container."""
    return f"{VOLUMES_DIRECTORY}/{claim}/{path}"


def location(place: InputPlace | OutputPlace) -> Location:
    """Where a file or folder is, for a worker."""
    if place.uri is not None:
        return Location(where=place.uri, secret_name=place.secret_name)
    return Location(where=mounted_path(str(place.claim_name), str(place.path)))


def model_location(model: ModelSource) -> ModelLocation:
    """Where a model is, for an engine or a worker."""
    if model.hugging_face:
        repo, revision = model.hugging_face.repo, model.hugging_face.revision
        return ModelLocation(name_or_path=repo, revision=revision, secret_name=model.secret_name)
    if model.uri is not None:
        return ModelLocation(name_or_path=model.uri, secret_name=model.secret_name)
    return ModelLocation(name_or_path=mounted_path(str(model.claim_name), str(model.path)))


def claim_volumes(read: Iterable[str | None], written: Iterable[str] = (), secrets: Iterable[str | None] = ()) -> Parts:
    """Volumes and mounts: each claim once, read-only unless something is written to it, secrets, and `/tmp`."""
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
    for number, secret in enumerate(sorted({secret for secret in secrets if secret})):
        name = f"secret-{number}"
        # The kubelet would say only in an event that there is none; who reads it says so in the status.
        volumes.append({"name": name, "secret": {"secretName": secret, "optional": True}})
        mounts.append({"name": name, "mountPath": f"{SECRETS_DIRECTORY}/{secret}", "readOnly": True})
    return volumes, mounts


def offline_environment(model: ModelSource, *places: InputPlace | None) -> list[dict[str, str]]:
    """Environment of a process that loads a model and reads places: the hub is asked only where one names it."""
    on_hub = any(place is not None and place.uri is not None and place.uri.startswith("hf://") for place in places)
    environment = {
        "HOME": "/tmp",  # noqa: S108 - the pod's own emptyDir
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if model.hugging_face is None and not on_hub:
        environment["HF_HUB_OFFLINE"] = "1"
    return [{"name": name, "value": value} for name, value in environment.items()]
