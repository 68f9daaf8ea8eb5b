"""The input of Rowen's own workers."""

from rowen.crds.job.batch_inference import BatchInference
from rowen.crds.job.fine_tune import FineTune, Learning
from rowen.crds.job.worker import BatchSpec, TuningSpec
from rowen.operator.pods.volumes import location, model_location


def tuning_spec(tune: FineTune, job: str) -> TuningSpec:
    """Input of a fine-tuning worker."""
    return TuningSpec(
        job=job,
        base_model=model_location(tune.base_model),
        dataset=location(tune.dataset),
        output=location(tune.output),
        **{name: getattr(tune, name) for name in Learning.model_fields},
    )


def batch_spec(batch: BatchInference, memory: int) -> BatchSpec:
    """Input of a batch inference worker with that many bytes of memory of its own."""
    return BatchSpec(
        model=model_location(batch.model),
        adapter=location(batch.adapter) if batch.adapter else None,
        input=location(batch.input),
        output=location(batch.output),
        errors=location(batch.errors) if batch.errors else None,
        args=batch.args,
        memory_bytes=memory,
    )
