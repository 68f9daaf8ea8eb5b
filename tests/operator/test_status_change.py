"""When a status is written at once, later, or not at all."""

from typing import Any

import pytest

from rowen.operator.status_change import JOB_FIELDS, SERVICE_FIELDS, status_change


def condition(type_: str, status: str = "True", message: str = "") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": "R", "message": message, "lastTransitionTime": "t"}


BASE = {"state": "Running", "conditions": [condition("Running"), condition("Preempted", "False")]}


@pytest.mark.parametrize(
    ("current", "wanted", "change"),
    [
        (BASE, BASE, "None"),
        ({**BASE, "assignment": {"id": "a"}, "conditions": [*BASE["conditions"], condition("Placed")]}, BASE, "None"),
        ({}, BASE, "Loud"),
        (BASE, {**BASE, "state": "Completed"}, "Loud"),
        (BASE, {**BASE, "conditions": [condition("Running", "False"), condition("Preempted", "False")]}, "Loud"),
        (BASE, {**BASE, "state": "Preempted", "conditions": [condition("Running"), condition("Preempted")]}, "Quiet"),
        ({**BASE, "progress": {"completed": 1}}, {**BASE, "progress": {"completed": 2}}, "Quiet"),
        (BASE, {**BASE, "progress": {"completed": 2}}, "Loud"),
        ({**BASE, "result": "old"}, BASE, "Loud"),
        (BASE, {**BASE, "startFailure": {"assignment": "a"}}, "Loud"),
        ({**BASE, "startFailure": {"assignment": "a"}}, BASE, "Loud"),
        ({**BASE, "rideLosses": {"attempts": 1, "completed": 0}}, BASE, "Loud"),
        ({**BASE, "startFailure": {"assignment": "a"}}, {**BASE, "startFailure": {"assignment": "a"}}, "None"),
    ],
)
def test_job(current: dict[str, Any], wanted: dict[str, Any], change: str) -> None:
    assert status_change(current, wanted, JOB_FIELDS) == change


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (condition("SLOMet", "False", "p99 is 1 s"), condition("SLOMet", "False", "p99 is 2 s"), "Quiet"),
        (condition("SLOMet", "False"), condition("SLOMet", "True"), "Loud"),
    ],
)
def test_service(before: dict[str, Any], after: dict[str, Any], change: str) -> None:
    assert status_change({"conditions": [before]}, {"conditions": [after]}, SERVICE_FIELDS) == change
