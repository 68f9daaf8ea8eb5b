"""Workload classes: jobs that are expected to run equally fast on the same device."""

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
        return f"FineTune|{_model(tune.base_model, namespace)}|{shape}|x{spec.devices}"
    if spec.batch_inference is not None:
        return f"BatchInference|{_model(spec.batch_inference.model, namespace)}|m{spec.memory}|x{spec.devices}"
    return f"Template|{namespace}/{_image(spec.template or {})}|m{spec.memory}|x{spec.devices}"


def _model(source: ModelSource, namespace: str) -> str:
    if source.hugging_face is not None:
        return f"hf:{source.hugging_face.repo}@{source.hugging_face.revision}"
    return f"{namespace}/{source.claim_name}/{source.path}"


def _image(template: dict[str, object]) -> str:
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    first = containers[0] if isinstance(containers, list) and containers else None
    return str(first.get("image", "")) if isinstance(first, dict) else ""
