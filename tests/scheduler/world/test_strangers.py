"""A job's status names nothing of other namespaces: whoever may read the job reads it."""

from dataclasses import replace

import pytest
from scheduler.builders import NOW, POLICY, device, job, node, outcome, placed, running, world

from rowen.scheduler.decision import decide
from rowen.scheduler.history import History, Track
from rowen.scheduler.serve.sight import labels_of
from rowen.scheduler.snapshot import JobView, NodeView
from rowen.scheduler.world.status import Wanted, wanted

STRANGER = "a job of another namespace"


def told(about: str, *parts: NodeView | JobView, history: History | None = None) -> Wanted:
    history = history or History()
    snapshot = world(*running(*parts))
    found = outcome(decide(snapshot, history, NOW, POLICY), about)
    return wanted(found, labels_of(snapshot), history, NOW, POLICY)


def texts(status: Wanted) -> str:
    said = [condition.message for condition in status.conditions]
    if status.explanation is not None:
        said += [status.explanation.message, *(entry.reason for entry in status.explanation.candidates)]
    return "\n".join(said)


@pytest.mark.parametrize(("namespace", "name"), [("b", STRANGER), ("a", "a/first")])
def test_who_stays_on_a_device_that_takes_one_at_a_time(namespace: str, name: str) -> None:
    held = device("n", restraint="SLO guard: OnlineService b/chat misses its SLO")
    first = placed(job("first", namespace=namespace, created=1.0), "n")
    gone = told("gone", node("n", held, slots=4), first, placed(job("gone", namespace="a", created=2.0), "n"))
    guard = "SLO guard: the OnlineService of another namespace misses its SLO"
    assert f"n/cpu0: {guard}: {name} stays" in texts(gone)


@pytest.mark.parametrize(("namespace", "name"), [("b", STRANGER), ("a", "a/held")])
def test_whose_promise_is_in_the_way(namespace: str, name: str) -> None:
    held = placed(job("held", namespace=namespace, sla=0.7), "n")
    waits = texts(told("j", node("n", slots=4), held, job("j", namespace="a")))
    # In the condition, in the explanation, and in the candidate's reason.
    assert waits.count(f"{name} would fall to 0.40 < its SLA") == 3


@pytest.mark.parametrize(("namespace", "name"), [("b", STRANGER), ("a", "a/short")])
def test_for_whom_a_job_made_way(namespace: str, name: str) -> None:
    short = placed(job("short", namespace=namespace, sla=0.5), "n")
    assert short.placement is not None
    track = Track(short.placement.id, "p", "class", ("cpu",), NOW - 600, NOW, 0, 0.0, shortfall=150.0, fraction=0.4)
    other = replace(placed(job("other", namespace="a"), "n"), sla=None)
    gone = told("other", node("n", slots=4), short, other, history=History(tracks={"uid-short": track}))
    assert f"n/cpu0: made way for {name}, which measured 0.40" in texts(gone)
