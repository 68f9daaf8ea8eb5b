"""Workload classes: jobs that are expected to run equally fast on the same device."""

from rowen.crds.base import quantity_bytes
from rowen.crds.job.offline_job import OfflineJobSpec, WorkloadProfile
from rowen.scheduler.model.memory import MemoryCurve, MemoryNeed, linear_need

_ASSUMED_DOUBT = 0.5
"""Of a φ that is only assumed: what the job loses may be half or one and a half of it."""
_GIVEN_DOUBT = 0.1
_TUNING_WITHOUT = 0.5
"""Assumed throughput of tuning without memory of the pool: frozen weights are loaded again for every pass."""


def workload_class(spec: OfflineJobSpec, namespace: str) -> str:
    """The class key: kind, model and the parameters that shape a step.

    Claims are namespaced, so a model on a volume belongs to its namespace; so does whatever a job's own profile says,
    since no namespace may tell another how fast its jobs are.
    """
    model = _model(spec, namespace)
    if spec.fine_tune is not None:
        tune = spec.fine_tune
        targets = "+".join(sorted(tune.lora.target_modules))
        shape = f"b{tune.batch_size},s{tune.sequence_length},r{tune.lora.rank},{targets}"
        memory = f"|{_memory(spec)}" if pool_bytes(spec) else ""
        return f"FineTune|{model}|{shape}{memory}|x{spec.devices}"
    kind = "Template" if spec.batch_inference is None else "BatchInference"
    return f"{kind}|{model}|{_memory(spec)}|x{spec.devices}"


def pool_bytes(spec: OfflineJobSpec) -> int:
    """What the job may have of its device's pool at most."""
    return quantity_bytes(spec.memory_limit or spec.memory) - quantity_bytes(spec.memory)


def memory_need(spec: OfflineJobSpec) -> MemoryNeed | None:
    """What the job does with memory of the pool, before anything was measured; None where it may have none.

    The job's own curve; else it is assumed to rise in a straight line up to all that it may have: from 0 for a KV
    cache, whose sequences run at once, and from a half for tuning.
    """
    want = pool_bytes(spec)
    if want == 0:
        return None
    if spec.profile is not None and spec.profile.memory_curve:
        return _given_need(spec.profile, want)
    if spec.fine_tune is not None:
        curve = MemoryCurve(((0.0, _TUNING_WITHOUT), (float(want), 1.0)))
        return MemoryNeed(curve, want, doubt=_ASSUMED_DOUBT)
    return linear_need(want, doubt=_ASSUMED_DOUBT)


def _given_need(profile: WorkloadProfile, want: int) -> MemoryNeed:
    """Over its fraction at all that it may have, which is what it wants: what lies above that it never gets.

    A curve that falls, or is 0 throughout, as only a request that no API server saw may, is raised or stays.
    """
    points: list[tuple[float, float]] = []
    given = sorted((quantity_bytes(point.memory), point.fraction) for point in profile.memory_curve or ())
    most = max(fraction for _, fraction in given)
    for memory, fraction in given:
        highest = max([fraction, *(worth * most for _, worth in points[-1:])])
        points.append((float(memory), highest / most if most > 0.0 else 0.0))
    most_bytes = max(want, given[-1][0])
    return MemoryNeed(MemoryCurve(tuple(points)), most_bytes, profile.memory_loss or 0.0, _GIVEN_DOUBT).within(want)


def _memory(spec: OfflineJobSpec) -> str:
    return f"m{spec.memory}-{spec.memory_limit}" if pool_bytes(spec) else f"m{spec.memory}"


def _model(spec: OfflineJobSpec, namespace: str) -> str:
    """What the job computes, or the name that it gives to that."""
    if spec.profile is not None and spec.profile.name is not None:
        return f"{namespace}/{spec.profile.name}"
    source = spec.fine_tune.base_model if spec.fine_tune is not None else None
    if spec.batch_inference is not None:
        source = spec.batch_inference.model
    if source is None:
        return f"{namespace}/{_image(spec.template or {})}"
    if source.hugging_face is None:
        return f"{namespace}/{source.reference}"
    model = f"hf:{source.hugging_face.repo}@{source.hugging_face.revision}"
    return model if spec.profile is None else f"{namespace}/{model}"


def _image(template: dict[str, object]) -> str:
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    first = containers[0] if isinstance(containers, list) and containers else None
    image = first.get("image") if isinstance(first, dict) else None
    return image if isinstance(image, str) else ""
