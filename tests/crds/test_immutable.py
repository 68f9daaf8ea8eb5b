"""What a stored object may not become."""

import re

import pytest
from kubectl import Kubectl
from samples import BATCH, TEMPLATE, WORKLOAD_REF, Manifest, changed, offline_job, online_service

JOB = offline_job()
BATCH_JOB = offline_job(fineTune=None, batchInference=BATCH)
POD_JOB = offline_job(fineTune=None, template=TEMPLATE)
ELASTIC_JOB = offline_job(memoryLimit="8Gi")
SERVICE = online_service()
ELASTIC = changed(SERVICE, "spec.engine.memoryLimit", "8Gi")

REFUSED: list[tuple[str, Manifest, Manifest, str]] = [
    ("fineTune changed", JOB, changed(JOB, "spec.fineTune.epochs", 2), "fineTune is immutable"),
    (
        "batchInference changed",
        BATCH_JOB,
        changed(BATCH_JOB, "spec.batchInference.output.path", "x"),
        "batchInference is",
    ),
    ("template changed", POD_JOB, changed(POD_JOB, "spec.template.spec.hostname", "x"), "template is immutable"),
    ("another kind of job", JOB, BATCH_JOB, "is immutable; make a new OfflineJob"),
    ("devices", JOB, changed(JOB, "spec.devices", 2), "devices is immutable"),
    ("memory", JOB, changed(JOB, "spec.memory", "1Gi"), "memory is immutable"),
    ("memoryLimit", ELASTIC_JOB, changed(ELASTIC_JOB, "spec.memoryLimit", "9Gi"), "memoryLimit is immutable"),
    ("memoryLimit added", JOB, ELASTIC_JOB, "memoryLimit is immutable"),
    ("memoryLimit removed", ELASTIC_JOB, JOB, "memoryLimit is immutable"),
    ("engine for workload", SERVICE, online_service(engine=None, workloadRef=WORKLOAD_REF), "cannot be exchanged"),
]

ALLOWED: list[tuple[str, Manifest, Manifest]] = [
    ("suspend", JOB, changed(JOB, "spec.suspend", True)),
    ("a deadline", JOB, changed(JOB, "spec.activeDeadlineSeconds", 60)),
    ("priority", JOB, changed(JOB, "spec.priority", 7)),
    ("a promise", POD_JOB, changed(POD_JOB, "spec.sla", {"throughputFraction": 0.5})),
    ("replicas", SERVICE, changed(SERVICE, "spec.engine.replicas", 3)),
    ("an engine's memoryLimit", ELASTIC, changed(ELASTIC, "spec.engine.memoryLimit", "9Gi")),
    ("an engine's memoryLimit added", SERVICE, ELASTIC),
    ("an engine's memoryLimit removed", ELASTIC, SERVICE),
    ("harvest off", SERVICE, changed(SERVICE, "spec.harvest", {"enabled": False})),
]


@pytest.mark.parametrize(("before", "after", "message"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_refused(kubectl: Kubectl, before: Manifest, after: Manifest, message: str) -> None:
    assert kubectl.apply(before).ok
    outcome = kubectl.apply(after)
    assert not outcome.ok
    assert re.search(message, outcome.text), outcome.text


@pytest.mark.parametrize(("before", "after"), [c[1:] for c in ALLOWED], ids=[c[0] for c in ALLOWED])
def test_allowed(kubectl: Kubectl, before: Manifest, after: Manifest) -> None:
    assert kubectl.apply(before).ok
    outcome = kubectl.apply(after)
    assert outcome.ok, outcome.text
