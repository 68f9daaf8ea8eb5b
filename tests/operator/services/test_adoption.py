"""Whose an engine's pod is."""

from typing import Any

import pytest

from rowen.operator.services.adoption import may_own, owns

DEPLOYMENT = {"kind": "Deployment", "metadata": {"name": "llm", "namespace": "a", "uid": "d-1"}}
STATEFUL_SET = {"kind": "StatefulSet", "metadata": {"name": "llm", "namespace": "a", "uid": "s-1"}}


def pod(
    kind: str = "ReplicaSet", name: str = "llm-5d4", uid: str = "r-1", *, version: str = "apps/v1", **metadata: Any
) -> dict[str, Any]:
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
    labels = {"pod-template-hash": "5d4"}
    return {"metadata": {"name": "x", "namespace": "a", "labels": labels, "ownerReferences": [owner], **metadata}}


@pytest.mark.parametrize(
    ("workload", "found", "expected"),
    [
        (DEPLOYMENT, pod(), True),
        (DEPLOYMENT, pod(name="llm-b-5d4"), False),
        (DEPLOYMENT, pod(name="llm-5d4", labels={"pod-template-hash": "77"}), False),
        (DEPLOYMENT, pod(name="llm-", labels={"pod-template-hash": ""}), False),
        (DEPLOYMENT, pod(labels=None), False),
        (DEPLOYMENT, pod(namespace="b"), False),
        (DEPLOYMENT, pod(version="other/v1"), False),
        (DEPLOYMENT, pod(ownerReferences=None), False),
        (DEPLOYMENT, pod("StatefulSet", "llm", "s-1"), False),
        (STATEFUL_SET, pod("StatefulSet", "llm", "s-1"), True),
        (STATEFUL_SET, pod("StatefulSet", "llm", "s-0"), False),
        (STATEFUL_SET, pod(), False),
    ],
)
def test_a_pod_belongs_to_the_workload_whose_controller_it_names(
    workload: dict[str, Any], found: dict[str, Any], expected: bool
) -> None:
    assert owns(workload, found) is expected


@pytest.mark.parametrize(
    ("kind", "workload", "name", "expected"),
    [
        ("Deployment", "llm", "llm-5d4-x7abc", True),
        ("Deployment", "llm", "llm-b-5d4-x7abc", False),
        ("Deployment", "llm-b", "llm-b-5d4-x7abc", True),
        ("Deployment", "llm", "llm-0", False),
        ("Deployment", "llm", "llmb-5d4-x7abc", False),
        ("Deployment", "llm", "x7-abc", False),
        ("StatefulSet", "llm", "llm-10", True),
        ("StatefulSet", "llm", "llm-b-0", False),
        ("StatefulSet", "llm", "llm-5d4-x7abc", False),
        ("StatefulSet", "llm", "0", False),
        # Names of a Deployment's pods are cut.
        ("Deployment", "l" * 70, "l" * 58 + "x7abc", True),
        ("Deployment", "l" * 57, "l" * 57 + "-x7abc", True),
    ],
)
def test_pods_of_other_names_are_not_looked_at(kind: str, workload: str, name: str, expected: bool) -> None:
    assert may_own(kind, workload, name) is expected
