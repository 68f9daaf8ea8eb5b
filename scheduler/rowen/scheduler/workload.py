"""Workload classes: jobs that are expected to run equally fast on the same device."""

from rowen.crds.base import quantity_bytes
from rowen.crds.common import ModelSource
from rowen.crds.offline_job import OfflineJobSpec


def workload_class(spec: OfflineJobSpec, namespace: str) -> str:
    """The class key: kind, model and the parameters that shape a step.

    Claims are namespaced, so a model on a volume belongs to its namespace.
    """
    if spec.fine_tune is not None:
        tune = spec.fine_tune
        targets = "+".join(sorted(tune.lora.target_modules))
        shape = f"b{tune.batch_size},s{tune.sequence_length},r{tune.lora.rank},{targets}"
        memory = f"|{_memory(spec)}" if pool_bytes(spec) else ""
        return f"FineTune|{_model(tune.base_model, namespace)}|{shape}{memory}|x{spec.devices}"
    if spec.batch_inference is not None:
        return f"BatchInference|{_model(spec.batch_inference.model, namespace)}|{_memory(spec)}|x{spec.devices}"
    return f"Template|{namespace}/{_image(spec.template or {})}|{_memory(spec)}|x{spec.devices}"


def pool_bytes(spec: OfflineJobSpec) -> int:
    """What the job may have of its device's pool at most."""
    return quantity_bytes(spec.memory_limit or spec.memory) - quantity_bytes(spec.memory)


def _memory(spec: OfflineJobSpec) -> str:
    return f"m{spec.memory}-{spec.memory_limit}" if pool_bytes(spec) else f"m{spec.memory}"


def _model(source: ModelSource, namespace: str) -> str:
    if source.hugging_face is not None:
        return f"hf:{source.hugging_face.repo}@{source.hugging_face.revision}"
    return f"{namespace}/{source.claim_name}/{source.path}"


def _image(template: dict[str, object]) -> str:
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    first = containers[0] if isinstance(containers, list) and containers else None
    return str(first.get("image", "")) if isinstance(first, dict) else ""
