"""A job that this scheduler does not understand is told so, and is in nobody's way."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError
from scheduler.builders import NOW, POLICY, node, outcome, run, world
from scheduler.serve.test_server import Source, client

from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.scheduler.decision import Action
from rowen.scheduler.history import History
from rowen.scheduler.snapshot import JobView
from rowen.scheduler.world.facts import read_job
from rowen.scheduler.world.status import manifest, wanted

STAMP = "2026-01-02T03:04:05Z"
META = {"uid": "uid-j", "namespace": "ns", "name": "j", "creationTimestamp": STAMP, "generation": 3}
HELD = {
    "id": "a", "node": "n", "devices": ["cpu0"], "predictedFraction": 0.5, "time": STAMP,
    "lease": {"durationSeconds": 30},
}  # fmt: skip


def read(spec: Any, **status: Any) -> JobView | None:
    return read_job({"metadata": {**META, "resourceVersion": "7"}, "spec": spec, "status": status})


def nested(levels: int) -> Any:
    found: Any = {}
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"template": {}, "colour": "s3cret"}, "spec.colour: there is no such field"),
        ({"template": {}, "memory": "s3cret"}, "spec.memory: an amount of memory was expected, as 4Gi or 500M"),
        ({"fineTune": nested(500)}, "spec.fineTune.baseModel: it is missing"),
        ({"template": {}, "sla": {"throughputFraction": nested(500)}}, "spec.sla.throughputFraction: it should be"),
        (["s3cret"], "spec: an object with fields was expected"),
    ],
)
def test_the_field_is_told_in_conditions_and_explanation(spec: Any, told: str) -> None:
    view = read(spec)
    assert view is not None
    found = outcome(run(node("n"), view), "j")
    assert (found.action, found.placement) == (Action.WAIT, None)
    status = wanted(found, (), History(), NOW, POLICY)
    assert [(c.type, c.status, c.reason) for c in status.conditions] == [
        ("Admitted", "False", "Unreadable"),
        ("Placed", "False", "Unreadable"),
    ]
    assert status.explanation is not None
    for message in (*(condition.message for condition in status.conditions), status.explanation.message):
        assert message.startswith(f"the scheduler does not understand it: {told}")
        assert "s3cret" not in message
    metadata = {"name": "j", "namespace": "ns", "uid": "uid-j", "resourceVersion": "7"}
    assert manifest(view, status)["metadata"] == metadata


def test_a_template_however_deep_is_no_matter() -> None:
    view = read({"template": {"spec": {"containers": [{"name": "m", "image": nested(500)}], "x": nested(500)}}})
    assert view is not None
    assert not view.unreadable
    assert outcome(run(node("n"), view), "j").action is Action.PLACE


def test_one_that_has_a_place_keeps_it() -> None:
    with pytest.raises(ValidationError):
        read({"colour": "red"}, assignment=HELD)


def test_others_jobs_and_finished_ones_are_left_alone() -> None:
    assert read({"colour": "red", "managedBy": "example.com/other"}) is None
    finished = {"type": "Finished", "status": "True", "reason": "Completed", "lastTransitionTime": STAMP}
    assert read({"colour": "red"}, conditions=[finished]) is None
    assert read({"colour": "red", "managedBy": "rowen.dev/operator"}) is not None


def test_it_is_asked_about_without_candidates() -> None:
    view = read({"colour": "red"})
    assert view is not None
    status = OfflineJobStatus.from_wire({"explanation": {"message": "the scheduler does not understand it"}})
    answer = client(Source(world(node("n"), replace(view, status=status)))).get("/v1/explain/ns/j").json()
    assert answer["explanation"] == {"message": "the scheduler does not understand it", "candidates": []}
