"""A start that does not come off is told once, in time, with its cause and with whose fault it is."""

from dataclasses import replace
from typing import Any

import pytest
from operator_builders import (
    NOW,
    PLACED,
    START_DEADLINE_SECONDS,
    TEMPLATE,
    condition,
    ended,
    job,
    placed,
    pod,
    running,
)

from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.kube.timestamps import rfc3339
from rowen.operator.decision import Decision, Refusal
from rowen.operator.jobs.lost_pods import FORCE_SECONDS
from rowen.operator.jobs.policy import decide
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.jobs.start import PROBLEM_SECONDS
from rowen.operator.jobs.start_wait import StartWait
from rowen.operator.pods.view import PodView, Problem
from rowen.operator.world.listening import Listening

PULL = Problem("ImagePullBackOff", 'Back-off pulling image "registry.test/none": ErrImagePull: not found', "mine")
TEMPLATE_JOB = {"template": TEMPLATE}
FINE_TUNE_JOB = job().spec.to_wire()
PODSECURITY = Refusal(403, 'pods "job-1" is forbidden: violates PodSecurity "restricted:latest"')
QUOTA = Refusal(403, 'pods "job-1" is forbidden: exceeded quota: small')
OLD = NOW - 100_000
LONG = {"durationSeconds": 100_000, "renewTime": rfc3339(NOW)}


def pending(problem: Problem | None = PULL, *, attempt: int = 1, **values: Any) -> PodView:
    return pod(attempt, problem=problem, node="node-1", **values)


def turned_away(attempt: int = 1, ago: float = 1.0, reason: str = "UnexpectedAdmissionError", **values: Any) -> PodView:
    """The kubelet did not take the pod."""
    said = {"end_reason": reason, "end_message": "Pod was rejected: no device", "disrupted": True}
    return pod(attempt, **{"phase": "Failed", "finished_at": NOW - ago, **said, **values})


def since(
    age: float, *pods: PodView, spec: dict[str, Any] | None = TEMPLATE_JOB, silent: float | None = None, **values: Any
) -> JobSnapshot:
    """A job that has waited for so many seconds, as long with a problem; `silent` tells the two apart.

    It is a template's unless `spec` says otherwise.
    """
    names = ("failures", "attempts", "countedAttempt", "conditions")
    status = {name: values.pop(name) for name in names if name in values}
    wait = StartWait("a1", 0, NOW - (age if silent is None else silent), "it", NOW - age)
    # Nobody else's time takes part.
    return job(spec, placed(made=NOW + 100_000, **status), pods=pods, wait=wait, **values)


def later(snapshot: JobSnapshot, seconds: float) -> Decision:
    """The decision after so many seconds of listening."""
    return decide(replace(snapshot, listening=Listening(0.0, NOW + seconds)), NOW + seconds)


def said(decision: Decision, type_: str = "Running") -> tuple[str, str, str]:
    assert decision.status is not None
    entry = next(entry for entry in decision.status["conditions"] if entry["type"] == type_)
    return entry["status"], entry["reason"], entry["message"]


def failure(decision: Decision) -> dict[str, Any]:
    assert decision.status is not None
    return dict(decision.status.get("startFailure") or {})


def events(decision: Decision) -> list[str]:
    return [note.reason for note in decision.notes]


def after(snapshot: JobSnapshot, decision: Decision, **values: Any) -> JobSnapshot:
    """The job once the decision's status is stored."""
    assert decision.status is not None
    own = {entry["type"] for entry in decision.status["conditions"]}
    others = [entry.to_wire() for entry in snapshot.status.conditions if entry.type not in own]
    kept = {"assignment": snapshot.status.assignment.to_wire()} if snapshot.status.assignment else {}
    wire = {**kept, **decision.status, "conditions": others + decision.status["conditions"]}
    return replace(snapshot, status=OfflineJobStatus.from_wire(wire), **values)


def problem(reason: str, container: str | None = "mine", message: str = "m") -> PodView:
    return pending(Problem(reason, message, container))


# What stands against the pod, and how long it may.
OVERDUE: list[tuple[str, JobSnapshot, float, str, str, str]] = [
    # name, snapshot whose wait began at NOW, seconds that it may last, reason, part of the message, cause
    ("image", since(0, pending()), PROBLEM_SECONDS, "ImagePullBackOff", "registry.test/none", "Job"),
    ("image of a native job", since(0, problem("ErrImagePull", "worker"), spec=None), 120, "ErrImagePull", "m",
     "Node"),
    ("unschedulable", since(0, problem("Unschedulable", None, "0/2 nodes")), 120, "Unschedulable", "0/2", "Node"),
    ("gated", since(0, problem("SchedulingGated", None, "")), 120, "SchedulingGated", "", "Cluster"),
    ("unknown problem", since(0, problem("RegistryUnavailable")), 120, "RegistryUnavailable", "m", "Node"),
    ("silence", since(0, pending(None)), 600, "StartDeadlineExceeded", "within 600 s on node node-1", "Node"),
    ("not bound", since(0, pod()), 600, "StartDeadlineExceeded", "kube-scheduler has not", "Node"),
    ("stopping", since(0, running(assignment_id="a0")), 120, "Stopping", "pod job-1 has to stop", "Cluster"),
    ("quota", since(0, refusal=QUOTA), 120, "PodForbidden", "exceeded quota", "Cluster"),
    ("a native job's quota", since(0, spec=None, refusal=QUOTA), 120, "PodForbidden", "quota", "Cluster"),
    ("Pod Security", since(0, refusal=PODSECURITY), 120, "PodForbidden", "violates", "Job"),
    ("Pod Security, otherwise refused", since(0, refusal=Refusal(500, PODSECURITY.message)), 120, "PodRefused",
     "violates", "Cluster"),
    ("Pod Security and Rowen's pod", since(0, spec=None, refusal=PODSECURITY), 120, "PodForbidden", "violates",
     "Cluster"),
    ("name taken", since(0, refusal=Refusal(409, "pod job-1 exists")), 120, "NameTaken", "job-1 exists", "Cluster"),
    ("a native job denied", since(0, spec=None, refusal=Refusal(422, "policy")), 120, "PodRefused", "policy",
     "Cluster"),
    ("a native job's bad request", since(0, spec=None, refusal=Refusal(400, "denied by webhook")), 120, "PodRefused",
     "webhook", "Cluster"),
    ("webhook away", since(0, refusal=Refusal(500, "failed calling webhook")), 120, "PodRefused", "webhook", "Cluster"),
    ("no answer", since(0, refusal=Refusal(0, "timed out")), 120, "PodRefused", "timed out", "Cluster"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("snapshot", "seconds", "reason", "message", "cause"),
    [case[1:] for case in OVERDUE],
    ids=[case[0] for case in OVERDUE],
)
def test_a_start_is_overdue_after_its_deadline(
    snapshot: JobSnapshot, seconds: float, reason: str, message: str, cause: str
) -> None:
    snapshot = job_with_lease(snapshot, LONG)
    early = later(snapshot, seconds)
    assert failure(early) == {}
    assert said(early)[1] != "NotStarted"
    decision = later(snapshot, seconds + 0.001)
    told = failure(decision)
    assert (told["assignment"], told["reason"], told["cause"]) == ("a1", reason, cause)
    assert message in told["message"]
    words = f"assignment a1 on node node-1: {reason}: {told['message']}"
    assert said(decision) == ("False", "NotStarted", words)
    assert [note.message for note in decision.notes if note.reason == "NotStarted"] == [words]
    assert decision.status is not None
    assert decision.status["state"] == "NotStarted"
    assert decision.status["failures"] == (1 if cause == "Job" else 0)
    assert not decision.children
    assert not [removal for removal in decision.removals if removal.pod == "job-1" and reason != "Stopping"]


def job_with_lease(snapshot: JobSnapshot, lease: dict[str, Any]) -> JobSnapshot:
    assert snapshot.status.assignment is not None
    wire = snapshot.status.to_wire()
    wire["assignment"] = {**wire["assignment"], "lease": lease}
    return replace(snapshot, status=OfflineJobStatus.from_wire(wire))


ALL_CONTAINERS = {
    "template": {
        "spec": {"containers": [{"image": "i"}, {"name": "side"}], "initContainers": [{"name": "fetch"}, {"name": "p"}]}
    }
}


@pytest.mark.parametrize(
    ("reason", "message", "own"),
    [("ErrImagePull", "not found", "Job"), ("ErrImagePull", "i/o timeout", "Node"), ("InvalidImageName", "", "Job")],
)
def test_a_problem_is_the_jobs_in_the_containers_that_its_template_names(reason: str, message: str, own: str) -> None:
    """Of an image or a container that is not the job's another node may say otherwise: it has the image."""

    def cause(container: str, spec: dict[str, Any] | None) -> str:
        return str(failure(decide(since(121, problem(reason, container, message), spec=spec), NOW))["cause"])

    assert {cause(container, ALL_CONTAINERS) for container in ("worker", "side", "fetch", "p")} == {own}
    assert cause("injected", ALL_CONTAINERS) == "Node"
    assert {cause(container, None) for container in ("worker", "injected")} == {"Node"}


@pytest.mark.parametrize("template", [TEMPLATE_JOB, None])
def test_a_template_that_the_api_server_calls_invalid_ends_the_job_at_once(template: dict[str, Any] | None) -> None:
    decision = decide(since(0, spec=template, refusal=Refusal(422, "no")), NOW)
    assert said(decision, "Finished")[:2] == (("True", "InvalidTemplate") if template else ("False", "Unfinished"))


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("UnexpectedAdmissionError", "UnexpectedAdmissionError"),
        ("NodeAffinity", "NodeAffinity"),
        ("OutOfcpu", "OutOfcpu"),
        ("OutOfrowen.dev/harvest", "OutOfResource"),
        ("", "TurnedAway"),
        ("R" * 65, "TurnedAway"),
        ("R" * 64, "R" * 64),
    ],
)
def test_a_kubelet_that_turns_the_pod_away_is_named(reason: str, word: str) -> None:
    decision = decide(since(PROBLEM_SECONDS + 1, turned_away(4, reason=reason)), NOW)
    assert (failure(decision)["reason"], failure(decision)["cause"]) == (word, "Node")
    assert f"attempt 4: {reason or 'Error'}: Pod was rejected: no device" in failure(decision)["message"]
    assert not decision.children


def test_attempts_that_were_turned_away_do_not_move_the_deadline() -> None:
    pods = tuple(turned_away(number, ago) for number, ago in ((1, 119), (2, 109), (3, 89), (4, 49)))
    due = decide(since(PROBLEM_SECONDS, *pods), NOW)
    assert (failure(due), said(due)[1], due.requeue_seconds) == ({}, "BackOff", 1.0)
    assert failure(later(since(PROBLEM_SECONDS, *pods), 0.001))["reason"] == "UnexpectedAdmissionError"


def test_once_the_back_off_is_over_it_is_tried_again() -> None:
    """So that an operator that was away does not judge by what it missed."""
    decision = decide(since(OLD, turned_away(1, ago=10)), NOW)
    assert (failure(decision), len(decision.children)) == ({}, 1)


def test_another_assignments_refusals_do_not_count() -> None:
    decision = decide(since(OLD, turned_away(1, assignment_id="a0")), NOW)
    assert (failure(decision), said(decision)[1]) == ({}, "BackOff")


def test_an_older_pod_has_the_time_that_it_was_given_to_stop() -> None:
    """Its own grace period, and what the operator waits before it deletes by force."""
    pods = (running(assignment_id="a0", deletion_deadline=NOW + 600), running(2, "a0", deletion_deadline=NOW))
    snapshot = job_with_lease(since(0, *pods), LONG)
    assert failure(later(snapshot, 600 + FORCE_SECONDS)) == {}
    assert failure(later(snapshot, 600 + FORCE_SECONDS + 0.001))["reason"] == "Stopping"


# In these nothing fails to start, however long they last.
FINE: list[tuple[str, JobSnapshot, str]] = [
    ("running", since(OLD, running(problem=PULL)), "Running"),
    ("back-off after a crash", since(OLD, ended(1, 1, finished_at=NOW - 1), failures=9, countedAttempt=1,
                                     spec={**FINE_TUNE_JOB, "backoffLimit": 20}), "BackOff"),
    ("back-off after an eviction", since(OLD, ended(1, 1, disrupted=True)), "BackOff"),
    ("a pod can be made", since(OLD), "Starting"),
    ("initializing", since(OLD, pending(None, initializing=True)), "Starting"),
    ("suspended", since(OLD, pending(), spec={**FINE_TUNE_JOB, "suspend": True}), "Suspended"),
    ("not placed", job(status={"conditions": [condition("Placed", "False")]}, pods=(pending(),)), "NotPlaced"),
    ("lease run out", job(status=placed(renewed=OLD), pods=(turned_away(1, ago=11),)), "LeaseExpired"),
]  # fmt: skip


@pytest.mark.parametrize(("snapshot", "reason"), [case[1:] for case in FINE], ids=[case[0] for case in FINE])
def test_no_start_fails(snapshot: JobSnapshot, reason: str) -> None:
    decision = decide(snapshot, NOW)
    assert (failure(decision), said(decision)[1]) == ({}, reason)
    assert not {"NotStarted", reason} & set(events(decision))


def test_nothing_is_overdue_while_nobody_listens() -> None:
    decision = decide(replace(since(OLD, pending()), listening=None), NOW)
    assert (failure(decision), said(decision)[1]) == ({}, "ImagePullBackOff")


def test_a_problem_counts_while_init_containers_run() -> None:
    assert failure(decide(since(OLD, pending(initializing=True)), NOW))["reason"] == "ImagePullBackOff"


@pytest.mark.parametrize("deadline", [5.0, 119.0])
def test_a_short_deadline_holds_for_known_problems_too(deadline: float) -> None:
    snapshot = replace(since(0, pending()), start_deadline_seconds=deadline)
    assert failure(later(snapshot, deadline)) == {}
    assert failure(later(snapshot, deadline + 0.001))


@pytest.mark.parametrize(
    ("snapshot", "seconds"),
    [
        (since(0, pending(), silent=500), PROBLEM_SECONDS),
        (since(500, pending(None), silent=0), START_DEADLINE_SECONDS),
        (since(0, refusal=QUOTA), 30),
        (since(100, refusal=QUOTA), 20),
        (since(0, running(assignment_id="a0", deletion_deadline=NOW)), 30),
        (since(100, running(assignment_id="a0", deletion_deadline=NOW - 60)), 20),
        (since(115, turned_away(ago=1)), 5),
        (since(111, turned_away(ago=2)), 8),
        (since(PROBLEM_SECONDS, pending()), 1.0),
        (since(PROBLEM_SECONDS - 1.5, pending()), 1.5),
        (replace(since(0, pending()), listening=None), None),
        (since(OLD, running()), None),
    ],
)
def test_it_comes_back_when_the_deadline_falls_due(snapshot: JobSnapshot, seconds: float | None) -> None:
    assert decide(snapshot, NOW).requeue_seconds == seconds


def test_it_is_told_once_and_kept() -> None:
    first_seen = since(OLD, pending(attempt=3))
    first = decide(first_seen, NOW)
    assert first.status is not None
    assert (first.status["failures"], first.status["countedAttempt"]) == (1, 3)
    # The kubelet goes on between ErrImagePull and ImagePullBackOff.
    changed = pending(Problem("ErrImagePull", "not found", "mine"), attempt=3)
    stored = after(first_seen, first, pods=(changed,))
    again = decide(stored, NOW + 60)
    assert again.status == first.status
    assert (again.notes, again.children, again.removals, again.requeue_seconds) == ((), (), (), None)


@pytest.mark.parametrize(("spec", "failures"), [(TEMPLATE_JOB, 2), (None, 1)])
def test_a_refused_pod_is_counted_once_and_not_asked_for_again(spec: dict[str, Any] | None, failures: int) -> None:
    first_seen = since(121, spec=spec, refusal=PODSECURITY, failures=1, attempts=3, countedAttempt=2)
    first = decide(first_seen, NOW)
    again = decide(after(first_seen, first, refusal=None), NOW + 1)
    assert first.status is not None
    assert (first.status["failures"], first.status["attempts"], first.status["countedAttempt"]) == (failures, 3, 2)
    assert again.status == first.status
    assert (again.notes, again.children) == ((), ())


def test_its_pod_is_not_counted_again_when_it_ends() -> None:
    first_seen = since(OLD, pending())
    stored = after(first_seen, decide(first_seen, NOW), pods=(ended(1, 1),))
    decision = decide(stored, NOW)
    assert decision.status is not None
    assert (decision.status["failures"], decision.status["countedAttempt"]) == (1, 1)
    assert not decision.children


def test_a_pod_that_runs_after_all_is_said_to_run() -> None:
    first_seen = since(OLD, pending())
    stored = after(first_seen, decide(first_seen, NOW), pods=(running(),))
    decision = decide(stored, NOW)
    assert said(decision)[:2] == ("True", "Running")
    assert (failure(decision), decision.removals) == ({}, ())
    assert decision.status is not None
    assert (decision.status["failures"], decision.status["countedAttempt"]) == (1, 1), "what was counted stays counted"


def test_it_goes_with_the_assignment_and_is_forgotten_with_the_next() -> None:
    first_seen = since(OLD, pending())
    stored = after(first_seen, decide(first_seen, NOW))
    told = failure(decide(stored, NOW))

    def given(status: dict[str, Any], *pods: PodView) -> Decision:
        others = {"startFailure": told, "failures": 1, "countedAttempt": 1, "attempts": 1}
        return decide(job(status={**others, **status}, pods=pods), NOW)

    withdrawn = given({"conditions": [condition("Placed", "False", "NotStarted")]}, pending())
    assert ([removal.pod for removal in withdrawn.removals], said(withdrawn)[1]) == (["job-1"], "NotPlaced")
    assert failure(withdrawn) == told
    assert "NotStarted" not in events(withdrawn)
    elsewhere = given(placed("a2"))
    assert (failure(elsewhere), len(elsewhere.children)) == ({}, 1)
    assert elsewhere.status is not None
    assert elsewhere.status["failures"] == 1
    back_at_once = given(placed("a1"))
    assert (failure(back_at_once), back_at_once.children) == (told, ())


def test_a_suspended_job_keeps_what_was_told() -> None:
    told = {"assignment": "a1", "reason": "Unschedulable", "message": "m", "cause": "Node"}
    spec = {**FINE_TUNE_JOB, "suspend": True}
    decision = decide(job(spec, placed(startFailure=told)), NOW)
    assert (failure(decision), said(decision)[1]) == (told, "Suspended")


def test_the_last_failure_ends_the_job_with_its_cause() -> None:
    spec = {**TEMPLATE_JOB, "backoffLimit": 1}
    first_seen = since(OLD, ended(1, 1, "a0", finished_at=OLD), pending(attempt=2), spec=spec, failures=1,
                       countedAttempt=1)  # fmt: skip
    decision = decide(first_seen, NOW)
    status, reason, message = said(decision, "Finished")
    assert (status, reason) == ("True", "ImagePullBackOff")
    assert message == f"2 attempts failed, backoffLimit is 1; ImagePullBackOff: {PULL.message}"
    assert decision.status is not None
    assert (decision.status["failures"], decision.status["state"]) == (2, "Failed")
    assert failure(decision)["cause"] == "Job"
    assert events(decision) == ["NotStarted", "ImagePullBackOff"]
    assert [removal.pod for removal in decision.removals] == ["job-2"]
    again = decide(after(first_seen, decision), NOW)
    assert (again.status, again.notes) == (decision.status, ())


def test_one_failure_below_the_limit_does_not() -> None:
    spec = {**TEMPLATE_JOB, "backoffLimit": 1}
    assert said(decide(since(OLD, pending(), spec=spec), NOW), "Finished")[0] == "False"


def test_a_cause_that_is_not_the_jobs_never_ends_it() -> None:
    spec = {**TEMPLATE_JOB, "backoffLimit": 0}
    decision = decide(since(121, spec=spec, refusal=QUOTA), NOW)
    assert (said(decision, "Finished")[0], failure(decision)["cause"]) == ("False", "Cluster")


def test_a_finished_job_has_no_start() -> None:
    conditions = [*PLACED, condition("Finished", "True", "DatasetMissing")]
    decision = decide(since(OLD, pending(), conditions=conditions), NOW)
    assert (failure(decision), said(decision, "Finished")[1]) == ({}, "DatasetMissing")


def test_a_limit_that_is_lowered_later_ends_the_job_with_what_was_told() -> None:
    told = {"assignment": "a1", "reason": "InvalidImageName", "message": "m", "cause": "Job"}
    spec = {**FINE_TUNE_JOB, "backoffLimit": 0}
    status = placed(startFailure=told, failures=1, countedAttempt=1, attempts=1)
    assert said(decide(job(spec, status), NOW), "Finished")[1] == "InvalidImageName"
    told["cause"] = "Node"
    assert said(decide(job(spec, status, pods=(ended(1, 1),)), NOW), "Finished")[1] == "Failed"


def test_a_long_cause_is_cut_to_what_the_api_takes() -> None:
    long = Problem("CreateContainerError", "x" * 2000, "mine")
    assert len(failure(decide(since(OLD, pending(long)), NOW))["message"]) == 1024


def test_one_attempt_is_told_as_one() -> None:
    decision = decide(since(OLD, pending(attempt=1), spec={**TEMPLATE_JOB, "backoffLimit": 0}), NOW)
    assert said(decision, "Finished")[2].startswith("1 attempt failed, backoffLimit is 0; ImagePullBackOff: ")
