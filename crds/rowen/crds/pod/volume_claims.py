"""The PersistentVolumeClaims that a job's pod mounts, by name. They are in the job's namespace."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.job.place import InputPlace, ModelSource, OutputPlace
from rowen.crds.pod.pod_overlay import user_template


@dataclass(frozen=True, slots=True)
class WorkerClaims:
    """What the pod of fine-tuning or batch inference mounts; one that is both read and written is in both."""

    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


def worker_claims(job: OfflineJobSpec) -> WorkerClaims:
    """The claims in the fields of fine-tuning and batch inference; none where a template says what runs."""
    if job.fine_tune is not None:
        tune = job.fine_tune
        return WorkerClaims(_claims(tune.base_model, tune.dataset), _claims(tune.output))
    if job.batch_inference is not None:
        batch = job.batch_inference
        return WorkerClaims(_claims(batch.model, batch.adapter, batch.input), _claims(batch.output, batch.errors))
    return WorkerClaims()


def _claims(*places: InputPlace | OutputPlace | ModelSource | None) -> tuple[str, ...]:
    return tuple(place.claim_name for place in places if place is not None and place.claim_name)


def claim_names(job: OfflineJobSpec) -> tuple[str, ...]:
    """Each claim of the job's pod once, by name.

    What is not understood in a template names none. Nor does an `ephemeral` volume: its claim is made with the pod.
    """
    worker = worker_claims(job)
    return tuple(sorted({*worker.read, *worker.written, *_template_claims(user_template(job))}))


def _template_claims(template: object) -> Iterator[str]:
    volumes = _part(_part(template, "spec"), "volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        name = _part(_part(volume, "persistentVolumeClaim"), "claimName")
        if isinstance(name, str):
            yield name


def _part(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
