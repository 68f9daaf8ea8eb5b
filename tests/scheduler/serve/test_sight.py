"""What of other namespaces is told to whom."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduler.builders import job, placed, world

from rowen.scheduler.serve.sight import Neighbours, Sight, labels_of, neighbours

A = Sight(frozenset({"a"}))
LABELS = frozenset({"a/j", "b/j", "b/j-1"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("b/j would fall to 0.40", "a job of another namespace would fall to 0.40"),
        ("a/j would fall to 0.40", "a/j would fall to 0.40"),
        ("by 2.80 devices: b/j would fall", "by 2.80 devices: a job of another namespace would fall"),
        ("OnlineService p/chat is gone", "the OnlineService of another namespace is gone"),
        ("service p/chat may take", "the service of another namespace may take"),
        ("pod p/x carries no label rowen.dev/service", "a pod of another namespace carries no label rowen.dev/service"),
        ("no candidate holds: n/cpu0: idle 0.12", "no candidate holds: n/cpu0: idle 0.12"),
        ("nodeSelector example.com/zone=a", "nodeSelector example.com/zone=a"),
        ("b/j-1", "a job of another namespace"),
        ("", ""),
    ],
)
def test_names_of_other_namespaces_are_left_out(text: str, told: str) -> None:
    assert A.words(text, LABELS) == told
    assert Sight(None).words(text, LABELS) == text


@given(
    st.sampled_from(["", "pod ", "service ", "x: "]), st.sampled_from(sorted(LABELS)), st.sampled_from(["", ";", ", "])
)
def test_no_label_out_of_sight_is_left(before: str, label: str, after: str) -> None:
    told = A.words(f"{before}{label}{after}", LABELS)
    assert (label in told) is A.sees(label.split("/")[0])


def test_who_is_on_a_device() -> None:
    here, there = placed(job("j", namespace="a"), "n"), placed(job("j2", namespace="b"), "n", "cpu0", "cpu1")
    over = placed(job("j3", namespace="a", finished=True), "n")
    snapshot = world(here, there, over, placed(job("j4", namespace="a"), "m"), job("j5", namespace="a"))
    assert neighbours(snapshot, "n", ["cpu0"], A) == Neighbours(("a/j",), 1)
    assert neighbours(snapshot, "n", ["cpu1"], A) == Neighbours((), 1)
    assert neighbours(snapshot, "n", ["cpu0"], Sight(None)) == Neighbours(("a/j", "b/j2"), 0)
    assert labels_of(snapshot) == {"a/j", "b/j2", "a/j3", "a/j4", "a/j5"}
