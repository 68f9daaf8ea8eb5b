"""The Secrets that a job's worker reads, by name. They are in the job's namespace."""

from collections.abc import Iterator

from rowen.crds.job.offline_job import OfflineJobSpec


def secret_names(job: OfflineJobSpec) -> tuple[str, ...]:
    """Each Secret in the fields of fine-tuning and batch inference once."""
    return tuple(sorted({name for name in _named(job) if name}))


def _named(job: OfflineJobSpec) -> Iterator[str | None]:
    if job.fine_tune is not None:
        tune = job.fine_tune
        yield from (tune.base_model.secret_name, tune.dataset.secret_name, tune.output.secret_name)
        yield tune.weights_and_biases.secret_name if tune.weights_and_biases else None
    if job.batch_inference is not None:
        batch = job.batch_inference
        yield from (batch.model.secret_name, batch.input.secret_name, batch.output.secret_name)
        yield from (place.secret_name for place in (batch.adapter, batch.errors) if place)
