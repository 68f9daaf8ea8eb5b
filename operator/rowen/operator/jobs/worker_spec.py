"""The input of Rowen's own workers."""

from rowen.crds.offline_job import BatchInference, FineTune
from rowen.crds.worker import BatchSpec, TuningSpec
from rowen.operator.pods.volumes import model_location, volume_path


def tuning_spec(tune: FineTune) -> TuningSpec:
    """Input of a fine-tuning worker."""
    return TuningSpec(
        base_model=model_location(tune.base_model),
        dataset_path=volume_path(tune.dataset),
        output_path=volume_path(tune.output),
        lora=tune.lora,
        epochs=tune.epochs,
        batch_size=tune.batch_size,
        sequence_length=tune.sequence_length,
        learning_rate=tune.learning_rate,
        held_out_fraction=tune.held_out_fraction,
        checkpoint_steps=tune.checkpoint_steps,
        seed=tune.seed,
    )


def batch_spec(batch: BatchInference, memory: int) -> BatchSpec:
    """Input of a batch inference worker with that many bytes of memory of its own."""
    return BatchSpec(
        model=model_location(batch.model),
        input_path=volume_path(batch.input),
        output_path=volume_path(batch.output),
        memory_bytes=memory,
    )
