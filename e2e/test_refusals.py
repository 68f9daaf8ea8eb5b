"""Wrong manifests are refused by the API server, with the field named."""

import pytest
from kit import manifests
from kit.kubectl import KubectlError, apply, delete, get, wait_until
from kit.world import World


def _changed(manifest: dict, path: str, value: object) -> dict:
    *parents, last = path.split(".")
    target = manifest
    for key in parents:
        target = target.setdefault(key, {})
    if value is None:
        target.pop(last)
    else:
        target[last] = value
    return manifest


JOB_FAULTS = [
    ("spec.fineTune", None, "exactly one of fineTune, batchInference, template must be set"),
    ("spec.template", {"spec": {}}, "exactly one of fineTune, batchInference, template must be set"),
    ("spec.sla", {"throughputFraction": 1.5}, "spec.sla.throughputFraction"),
    ("spec.sla", {"throughputFraction": 0}, "spec.sla.throughputFraction"),
    ("spec.memory", "lots", "spec.memory"),
    ("spec.fineTune.dataset.path", "../secrets", "must not contain '..'"),
    ("spec.fineTune.epochs", 0, "spec.fineTune.epochs"),
    ("spec.fineTune.epoch", 3, 'unknown field "spec.fineTune.epoch"'),
    ("spec.devices", 0, "spec.devices"),
]

SERVICE_FAULTS = [
    ("spec.engine", None, "exactly one of engine, workloadRef must be set"),
    ("spec.workloadRef", {"kind": "Deployment", "name": "x"}, "exactly one of engine, workloadRef must be set"),
    ("spec.slo.ttft.target", "fast", "spec.slo.ttft.target"),
    ("spec.slo.tpot.percentile", 42, "spec.slo.tpot.percentile"),
    ("spec.engine.replicas", -1, "spec.engine.replicas"),
    ("spec.engine.model.path", None, "claimName and path go together"),
]


@pytest.mark.parametrize(("path", "value", "said"), JOB_FAULTS)
def test_a_wrong_job_is_refused(world: World, path: str, value: object, said: str) -> None:
    manifest = _changed(manifests.fine_tune("wrong", world.namespace, "m", "d.jsonl", "out"), path, value)
    with pytest.raises(KubectlError) as refusal:
        apply(manifest)
    assert said in str(refusal.value)
    assert get("ojob", "wrong", world.namespace) is None


@pytest.mark.parametrize(("path", "value", "said"), SERVICE_FAULTS)
def test_a_wrong_service_is_refused(world: World, path: str, value: object, said: str) -> None:
    manifest = _changed(manifests.online_service("wrong", world.namespace, "m"), path, value)
    with pytest.raises(KubectlError) as refusal:
        apply(manifest)
    assert said in str(refusal.value)


def test_the_work_of_a_job_cannot_be_changed(world: World) -> None:
    manifest = manifests.fine_tune("fixed", world.namespace, "m", "d.jsonl", "out")
    manifest["spec"]["suspend"] = True
    apply(manifest)
    try:
        manifest["spec"]["fineTune"]["epochs"] = 9
        with pytest.raises(KubectlError, match="fineTune is immutable"):
            apply(manifest)
        wait_until(
            lambda: (get("ojob", "fixed", world.namespace) or {}).get("status", {}).get("state") == "Suspended",
            "the suspended job says so",
            60,
        )
    finally:
        delete("ojob", "fixed", world.namespace)
