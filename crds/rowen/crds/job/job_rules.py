"""The rules across fields of an OfflineJob's spec, for one that no API server has seen.

The API server enforces them as CEL, which stands with the models, and no stored object is judged by these here. A test
holds both against the same examples, and against each other's messages.
"""

from collections.abc import Iterator
from itertools import product

from rowen.crds.base import ApiModel, stored_quantity_bytes
from rowen.crds.job.batch_inference import BatchInference
from rowen.crds.job.fine_tune import ALL_LINEAR, FineTune, Lora
from rowen.crds.job.offline_job import OfflineJobSpec, WorkloadProfile
from rowen.crds.job.place import InputPlace, ModelSource, OutputPlace
from rowen.crds.pod.pod_template_rules import broken_pod_rules
from rowen.crds.service.engine_args import BATCH_MESSAGE, decided_args


def broken_rules(spec: OfflineJobSpec) -> list[str]:
    """What was expected, as the API server says it, of each rule that is broken; inside of the spec with its field."""
    return [
        f"{'.'.join(path)}: {message}" if path else message
        for path, model in _parts((), spec)
        for message in _broken(model)
    ]


def _parts(path: tuple[str, ...], model: ApiModel) -> Iterator[tuple[tuple[str, ...], ApiModel]]:
    yield path, model
    for name, field in type(model).model_fields.items():
        value, alias = getattr(model, name), field.alias or name
        if isinstance(value, ApiModel):
            yield from _parts((*path, alias), value)
        elif isinstance(value, list):
            for number, entry in enumerate(value):
                if isinstance(entry, ApiModel):
                    yield from _parts((*path, f"{alias}[{number}]"), entry)


def _broken(model: ApiModel) -> Iterator[str]:
    match model:
        case OfflineJobSpec():
            yield from _of_spec(model)
        case FineTune():
            yield from _apart("output", model.output, "dataset", model.dataset)
            yield from _apart("output", model.output, "baseModel", model.base_model)
            if model.evaluation is not None and not model.held_out_fraction:
                yield "evaluation needs a heldOutFraction above 0"
        case Lora() if len(model.target_modules) > 1 and ALL_LINEAR in model.target_modules:
            yield f"targetModules: {ALL_LINEAR} stands alone"
        case BatchInference():
            yield from _of_batch(model)
        case WorkloadProfile():
            yield from _of_profile(model)
        case InputPlace() | OutputPlace():
            yield from _of_place(model)
        case ModelSource():
            yield from _of_model(model)
        case _:
            yield from broken_pod_rules(model)


def _of_spec(spec: OfflineJobSpec) -> Iterator[str]:
    if sum(part is not None for part in (spec.fine_tune, spec.batch_inference, spec.template)) != 1:
        yield "exactly one of fineTune, batchInference, template must be set"
    if spec.template is not None and not _has_container(spec.template):
        yield "template.spec.containers must name at least one container"
    if spec.template is not None and spec.pod_template is not None:
        yield "podTemplate goes with fineTune and batchInference"
    if spec.memory_limit is not None:
        if stored_quantity_bytes(spec.memory_limit) < stored_quantity_bytes(spec.memory):
            yield "memoryLimit must not be below memory"
        if spec.devices != 1:
            yield "memoryLimit goes with one device"
    elif spec.profile is not None and spec.profile.memory_curve is not None:
        yield "profile.memoryCurve goes with memoryLimit"


def _has_container(template: dict[str, object]) -> bool:
    pod = template.get("spec")
    return isinstance(pod, dict) and isinstance(pod.get("containers"), list) and len(pod["containers"]) > 0


def _of_profile(profile: WorkloadProfile) -> Iterator[str]:
    curve = profile.memory_curve
    if curve is None:
        if profile.memory_loss is not None:
            yield "memoryLoss goes with memoryCurve"
        return
    points = [(stored_quantity_bytes(point.memory), point.fraction) for point in curve]
    if any(a[0] <= b[0] and a[1] > b[1] for a, b in product(points, points)):
        yield "memoryCurve must not fall: with more memory a job is not slower"
    if not any(fraction > 0.0 for _, fraction in points):
        yield "memoryCurve must have a fraction above 0"


def _of_batch(batch: BatchInference) -> Iterator[str]:
    yield from _apart("output", batch.output, "input", batch.input)
    yield from _apart("errors", batch.errors, "input", batch.input)
    yield from _apart("errors", batch.errors, "output", batch.output)
    if batch.errors is not None and (batch.errors.uri is None) != (batch.output.uri is None):
        yield "errors and output must both be on a volume or both in object storage"
    if decided_args(batch.args):
        yield BATCH_MESSAGE


def _of_place(place: InputPlace | OutputPlace) -> Iterator[str]:
    if (place.claim_name is None) == (place.uri is None):
        yield "exactly one of claimName, uri must be set"
    if place.secret_name is not None and place.uri is None:
        yield "secretName goes with uri"
    yield from _of_paths(place)


def _of_model(model: ModelSource) -> Iterator[str]:
    # That there is exactly one source is the model's own validator's.
    if model.secret_name is not None and model.uri is None and model.hugging_face is None:
        yield "secretName goes with uri or huggingFace"
    yield from _of_paths(model)


def _of_paths(place: InputPlace | OutputPlace | ModelSource) -> Iterator[str]:
    if (place.claim_name is None) != (place.path is None):
        yield "claimName and path go together"
    for name, value in (("path", place.path), ("uri", place.uri)):
        if ".." in (value or "").split("/"):
            yield f"{name} must not contain '..'"


def _apart(
    name: str, written: OutputPlace | None, other: str, read: InputPlace | OutputPlace | ModelSource
) -> Iterator[str]:
    if written is None:
        return
    same_claim = written.claim_name is not None and written.claim_name == read.claim_name
    same_path = read.path is not None and _place(written.path) == _place(read.path)
    same_uri = read.uri is not None and written.uri is not None and _place(written.uri) == _place(read.uri)
    if (same_claim and same_path) or same_uri:
        yield f"{name} must not be the same place as {other}"


def _place(path: str | None) -> list[str]:
    """`a//b`, `./a/b` and `a/b/` are one path."""
    return [part for part in (path or "").split("/") if part not in ("", ".")]
