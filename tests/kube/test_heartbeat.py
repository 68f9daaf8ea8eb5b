"""A node's heartbeat, as its agent writes it and as readers read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.kube.heartbeat import Beat, beat_manifest, read_beat, renewed_beat


def test_a_heartbeat() -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    assert beat_manifest("agents", "n", "agent-x", 1_767_323_045.25, [owner]) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "namespace": "agents",
            "name": "n",
            "labels": {"app.kubernetes.io/managed-by": "rowen", "app.kubernetes.io/component": "agent"},
            "ownerReferences": [owner],
        },
        "spec": {
            "holderIdentity": "agent-x",
            "leaseDurationSeconds": 30,
            "renewTime": "2026-01-02T03:04:05.250000Z",
        },
    }
    assert "ownerReferences" not in beat_manifest("agents", "n", "agent-x", 0.0)["metadata"]


def test_a_renewed_heartbeat_is_what_was_stored_but_for_its_time() -> None:
    stored = beat_manifest("agents", "n", "agent-x", 0.0)
    stored["metadata"] |= {"uid": "u", "resourceVersion": "12", "annotations": {"a": "of somebody else's"}}
    spec = {**stored["spec"], "renewTime": "2026-01-02T03:04:05.250000Z"}
    assert renewed_beat(stored, 1_767_323_045.25) == {**stored, "spec": spec}
    assert stored["spec"]["renewTime"] == "1970-01-01T00:00:00.000000Z"


@given(st.floats(0.0, 4e9))
def test_it_is_read_as_it_was_written(now: float) -> None:
    found = read_beat(beat_manifest("agents", "n", "agent-x", now))
    assert found is not None
    assert (found.node, found.renewed) == ("n", pytest.approx(now, abs=1e-5))


def test_one_that_was_never_renewed_is_none_and_one_that_cannot_be_read_says_so() -> None:
    assert read_beat({"metadata": {"name": "n"}, "spec": {"renewTime": "2026-01-02T03:04:05.25Z"}}) == Beat(
        "n", 1_767_323_045.25
    )
    assert read_beat({"metadata": {"name": "n"}, "spec": {"holderIdentity": "n"}}) is None
    assert read_beat({"metadata": {"name": "n"}}) is None
    with pytest.raises(ValueError, match="soon"):
        read_beat({"metadata": {"name": "n"}, "spec": {"renewTime": "soon"}})
