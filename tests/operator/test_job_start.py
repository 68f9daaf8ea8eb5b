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

from rowen.crds.offline_job import OfflineJobStatus
from rowen.operator.decision import Decision, Refusal
from rowen.operator.job_policy import decide
from rowen.operator.job_snapshot import JobSnapshot
from rowen.operator.job_start import PROBLEM_SECONDS
from rowen.operator.pods import PodView, Problem

PULL = Problem("ImagePullBackOff", 'Back-off pulling image "registry.test/none"')
TEMPLATE_JOB = {"template": TEMPLATE}
FINE_TUNE_JOB = job().spec.to_wire()
PODSECURITY = Refusal(403, 'pods "job-1" is forbidden: violates PodSecurity "restricted:latest"')
QUOTA = Refusal(403, 'pods "job-1" is forbidden: exceeded quota: small')
OLD = NOW - 100_000


def pending(problem: Problem | None = PULL, *, age: float = 0.0, attempt: int = 1, **values: Any) -> PodView:
    return pod(attempt, waiting_since=NOW - age, problem=problem, node="node-1", **values)


def turned_away(attempt: int = 1, ago: float = 1.0, reason: str = "UnexpectedAdmissionError", **values: Any) -> PodView:
    """The kubelet did not take the pod."""
    said = {"end_reason": reason, "end_message": "Pod was rejected: no device", "disrupted": True}
    return pod(attempt, **{"phase": "Failed", "finished_at": NOW - ago, **said, **values})


def since(age: float, *pods: PodView, spec: dict[str, Any] | None = None, **values: Any) -> JobSnapshot:
    """A job whose assignment was made so many seconds ago."""
    names = ("failures", "attempts", "countedAttempt", "conditions")
    status = {name: values.pop(name) for name in names if name in values}
    return job(spec, placed(made=NOW - age, **status), pods=pods, **values)


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


# What stands against the pod, and how long it may: nobody looks at the assignment's age alone.
OVERDUE: list[tuple[str, JobSnapshot, float, str, str, bool]] = [
    # name, snapshot whose delay began at NOW, seconds that it may last, reason, part of the message, counted
    ("image", since(0, pending()), PROBLEM_SECONDS, "ImagePullBackOff", "registry.test/none", True),
    ("unschedulable", since(0, pending(Problem("Unschedulable", "0/2 nodes"))), 120, "Unschedulable", "0/2", False),
    ("gated", since(0, pending(Problem("SchedulingGated", ""))), 120, "SchedulingGated", "", False),
    ("unknown problem", since(0, pending(Problem("RegistryUnavailable", "down"))), 120, "RegistryUnavailable", "down",
     False),
    ("silence", since(0, pending(None)), 600, "StartDeadlineExceeded", "within 600 s on node node-1", False),
    ("not bound", since(0, pod(waiting_since=NOW)), 600, "StartDeadlineExceeded", "kube-scheduler has not", False),
    ("long after the assignment", since(900, pending(None)), 600, "StartDeadlineExceeded", "job-1", False),
    ("stopping", since(0, running(assignment_id="a0")), 120, "Stopping", "pod job-1 has to stop", False),
    ("quota", since(0, refusal=QUOTA), 120, "PodForbidden", "exceeded quota", False),
    ("a template's quota", since(0, spec=TEMPLATE_JOB, refusal=QUOTA), 120, "PodForbidden", "quota", False),
    ("Pod Security", since(0, spec=TEMPLATE_JOB, refusal=PODSECURITY), 120, "PodForbidden", "violates", True),
    ("Pod Security and Rowen's pod", since(0, refusal=PODSECURITY), 120, "PodForbidden", "violates", False),
    ("name taken", since(0, refusal=Refusal(409, "pod job-1 exists")), 120, "NameTaken", "job-1 exists", False),
    ("invalid", since(0, refusal=Refusal(422, "metadata.name: too long")), 120, "PodRefused", "too long", True),
    ("bad request", since(0, refusal=Refusal(400, "denied by webhook")), 120, "PodRefused", "webhook", True),
    ("webhook away", since(0, spec=TEMPLATE_JOB, refusal=Refusal(500, "failed calling webhook")), 120, "PodRefused",
     "webhook", False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("snapshot", "seconds", "reason", "message", "counted"),
    [case[1:] for case in OVERDUE],
    ids=[case[0] for case in OVERDUE],
)
def test_a_start_is_overdue_after_its_deadline(
    snapshot: JobSnapshot, seconds: float, reason: str, message: str, counted: bool
) -> None:
    assert snapshot.status.assignment is not None
    lease = {"durationSeconds": 100_000, "renewTime": snapshot.status.assignment.lease.renew_time}
    snapshot = job_with_lease(snapshot, lease)
    early = decide(snapshot, NOW + seconds)
    assert failure(early) == {}
    assert said(early)[1] != "NotStarted"
    decision = decide(snapshot, NOW + seconds + 0.001)
    told = failure(decision)
    assert (told["assignment"], told["reason"], told["counted"]) == ("a1", reason, counted)
    assert message in told["message"]
    assert said(decision) == ("False", "NotStarted", f"{reason}: {told['message']}")
    assert decision.status is not None
    assert decision.status["state"] == "NotStarted"
    assert decision.status["failures"] == (1 if counted else 0)
    assert events(decision).count("NotStarted") == 1
    assert not decision.children
    assert not [removal for removal in decision.removals if removal.pod == "job-1" and reason != "Stopping"]


def job_with_lease(snapshot: JobSnapshot, lease: dict[str, Any]) -> JobSnapshot:
    assert snapshot.status.assignment is not None
    wire = snapshot.status.to_wire()
    wire["assignment"] = {**wire["assignment"], "lease": lease}
    return replace(snapshot, status=OfflineJobStatus.from_wire(wire))


@pytest.mark.parametrize(
    "reason",
    ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
     "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff",
     "PostStartHookError"],
)  # fmt: skip
def test_what_the_job_itself_asks_for_counts(reason: str) -> None:
    assert failure(decide(since(OLD, pending(Problem(reason, "m"), age=121)), NOW))["counted"]


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
    assert (failure(decision)["reason"], failure(decision)["counted"]) == (word, False)
    assert f"attempt 4: {reason or 'Error'}: Pod was rejected: no device" in failure(decision)["message"]
    assert not decision.children


def test_attempts_that_were_turned_away_do_not_move_the_deadline() -> None:
    pods = tuple(turned_away(number, ago) for number, ago in ((1, 119), (2, 109), (3, 89), (4, 49)))
    due = decide(since(PROBLEM_SECONDS, *pods), NOW)
    assert (failure(due), said(due)[1], due.requeue_seconds) == ({}, "BackOff", 0.1)
    assert failure(decide(since(PROBLEM_SECONDS, *pods), NOW + 0.001))["reason"] == "UnexpectedAdmissionError"


def test_once_the_back_off_is_over_it_is_tried_again() -> None:
    """So that an operator that was away does not judge by what it missed."""
    decision = decide(since(OLD, turned_away(1, ago=10)), NOW)
    assert (failure(decision), len(decision.children)) == ({}, 1)


def test_another_assignments_refusals_do_not_count() -> None:
    decision = decide(since(OLD, turned_away(1, assignment_id="a0")), NOW)
    assert (failure(decision), said(decision)[1]) == ({}, "BackOff")


# Since when the start lasts: what was before that moment does not matter.
BEGUN: list[tuple[str, JobSnapshot]] = [
    ("the assignment was made", since(100, pending(age=900))),
    ("the pod was made, or its init containers ended", since(OLD, pending(age=100))),
    (
        "the last attempt ran",
        since(OLD, ended(1, 1, finished_at=NOW - 100, disrupted=True, deletion_deadline=NOW), refusal=QUOTA),
    ),
    ("the next attempt could start", since(OLD, ended(1, 1, finished_at=NOW - 110), refusal=QUOTA)),
    (
        "the next attempt could start, after an eviction",
        since(OLD, ended(1, 1, finished_at=NOW - 110, disrupted=True), refusal=QUOTA),
    ),
    (
        "the next attempt could start, after several evictions",
        since(
            OLD,
            ended(1, 1, finished_at=OLD, disrupted=True),
            ended(2, 1, finished_at=NOW - 120, disrupted=True),
            refusal=QUOTA,
        ),
    ),
    (
        "an attempt could start that was then turned away",
        since(OLD, ended(1, 1, finished_at=NOW - 110), *(turned_away(number) for number in range(2, 7))),
    ),
    (
        "an attempt could start after an eviction and was then turned away",
        since(
            OLD,
            ended(1, 1, finished_at=NOW - 110, disrupted=True),
            *(turned_away(number) for number in range(2, 7)),
        ),
    ),
    (
        "the job was seen to run, though no pod of it is left",
        since(
            OLD, pending(age=900), conditions=[*PLACED, condition("Running", "False", since=NOW - 100)]
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize("snapshot", [case[1] for case in BEGUN], ids=[case[0] for case in BEGUN])
def test_a_start_lasts_since(snapshot: JobSnapshot) -> None:
    """Each of them began a hundred seconds ago."""
    assert snapshot.status.assignment is not None
    snapshot = job_with_lease(
        snapshot, {"durationSeconds": 100_000, "renewTime": snapshot.status.assignment.lease.renew_time}
    )
    early = decide(snapshot, NOW + 20)
    assert failure(early) == {}
    assert failure(decide(snapshot, NOW + 20.001))
    assert decide(snapshot, NOW + 5).requeue_seconds == 15


def test_a_job_that_ran_until_now_begins_anew() -> None:
    conditions = [*PLACED, condition("Running", "True", since=OLD)]
    stopping = running(deletion_deadline=NOW)
    decision = decide(since(OLD, stopping, conditions=conditions), NOW)
    assert (failure(decision), said(decision)[1]) == ({}, "Stopping")
    assert decision.requeue_seconds == 30


# In these nothing fails to start, however long they last.
FINE: list[tuple[str, JobSnapshot, str]] = [
    ("running", since(OLD, running(problem=PULL)), "Running"),
    ("back-off after a crash", since(OLD, ended(1, 1, finished_at=NOW - 1), failures=9, countedAttempt=1,
                                     spec={**FINE_TUNE_JOB, "backoffLimit": 20}), "BackOff"),
    ("back-off after an eviction", since(OLD, ended(1, 1, disrupted=True)), "BackOff"),
    ("a pod can be made", since(OLD), "Starting"),
    ("initializing", since(OLD, pending(None, age=OLD, initializing=True)), "Starting"),
    ("suspended", since(OLD, pending(age=OLD), spec={**FINE_TUNE_JOB, "suspend": True}), "Suspended"),
    ("not placed", job(status={"conditions": [condition("Placed", "False")]}, pods=(pending(age=OLD),)), "NotPlaced"),
    ("lease run out", job(status=placed(made=OLD, renewed=OLD), pods=(turned_away(1, ago=11),)), "LeaseExpired"),
]  # fmt: skip


@pytest.mark.parametrize(("snapshot", "reason"), [case[1:] for case in FINE], ids=[case[0] for case in FINE])
def test_no_start_fails(snapshot: JobSnapshot, reason: str) -> None:
    decision = decide(snapshot, NOW)
    assert (failure(decision), said(decision)[1]) == ({}, reason)
    assert not {"NotStarted", reason} & set(events(decision))


def test_a_problem_counts_while_init_containers_run() -> None:
    assert failure(decide(since(OLD, pending(age=121, initializing=True)), NOW))["reason"] == "ImagePullBackOff"


@pytest.mark.parametrize("deadline", [5.0, 119.0])
def test_a_short_deadline_holds_for_known_problems_too(deadline: float) -> None:
    snapshot = replace(since(OLD, pending(age=0)), start_deadline_seconds=deadline)
    assert failure(decide(snapshot, NOW + deadline)) == {}
    assert failure(decide(snapshot, NOW + deadline + 0.001))


@pytest.mark.parametrize(
    ("snapshot", "seconds"),
    [
        (since(0, pending()), PROBLEM_SECONDS),
        (since(0, pending(None)), START_DEADLINE_SECONDS),
        (since(0, pending(age=-30)), PROBLEM_SECONDS + 30),
        (since(0, refusal=QUOTA), 30),
        (since(100, refusal=QUOTA), 20),
        (since(0, running(assignment_id="a0", deletion_deadline=NOW)), 30),
        (since(100, running(assignment_id="a0", deletion_deadline=NOW)), 20),
        (since(115, turned_away(ago=1)), 5),
        (since(111, turned_away(ago=2)), 8),
        (since(PROBLEM_SECONDS, pending(age=PROBLEM_SECONDS)), 0.1),
        (since(OLD, running()), None),
    ],
)
def test_it_comes_back_when_the_deadline_falls_due(snapshot: JobSnapshot, seconds: float | None) -> None:
    assert decide(snapshot, NOW).requeue_seconds == seconds


def test_it_is_told_once_and_kept() -> None:
    first_seen = since(OLD, pending(age=121, attempt=3))
    first = decide(first_seen, NOW)
    assert first.status is not None
    assert (first.status["failures"], first.status["countedAttempt"]) == (1, 3)
    # The kubelet goes on between ErrImagePull and ImagePullBackOff.
    changed = pending(Problem("ErrImagePull", "not found"), age=121, attempt=3)
    stored = after(first_seen, first, pods=(changed,))
    again = decide(stored, NOW + 60)
    assert again.status == first.status
    assert (again.notes, again.children, again.removals, again.requeue_seconds) == ((), (), (), None)


@pytest.mark.parametrize("refusal", [PODSECURITY, Refusal(422, "no")])
def test_a_refused_pod_is_counted_once_and_not_asked_for_again(refusal: Refusal) -> None:
    spec = TEMPLATE_JOB if refusal is PODSECURITY else None
    first_seen = since(121, spec=spec, refusal=refusal, failures=1, attempts=3, countedAttempt=2)
    first = decide(first_seen, NOW)
    again = decide(after(first_seen, first, refusal=None), NOW + 1)
    assert first.status is not None
    assert (first.status["failures"], first.status["attempts"], first.status["countedAttempt"]) == (2, 3, 2)
    assert again.status == first.status
    assert (again.notes, again.children) == ((), ())


def test_its_pod_is_not_counted_again_when_it_ends() -> None:
    first_seen = since(OLD, pending(age=121))
    stored = after(first_seen, decide(first_seen, NOW), pods=(ended(1, 1),))
    decision = decide(stored, NOW)
    assert decision.status is not None
    assert (decision.status["failures"], decision.status["countedAttempt"]) == (1, 1)
    assert not decision.children


def test_a_pod_that_runs_after_all_is_said_to_run() -> None:
    first_seen = since(OLD, pending(age=121))
    stored = after(first_seen, decide(first_seen, NOW), pods=(running(),))
    decision = decide(stored, NOW)
    assert said(decision)[:2] == ("True", "Running")
    assert (failure(decision)["reason"], decision.removals) == ("ImagePullBackOff", ())


def test_it_goes_with_the_assignment_and_is_forgotten_with_the_next() -> None:
    first_seen = since(OLD, pending(age=121))
    stored = after(first_seen, decide(first_seen, NOW))
    told = failure(decide(stored, NOW))

    def given(status: dict[str, Any], *pods: PodView) -> Decision:
        others = {"startFailure": told, "failures": 1, "countedAttempt": 1, "attempts": 1}
        return decide(job(status={**others, **status}, pods=pods), NOW)

    withdrawn = given({"conditions": [condition("Placed", "False", "NotStarted")]}, pending(age=121))
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
    told = {"assignment": "a1", "reason": "Unschedulable", "message": "m", "counted": False}
    spec = {**FINE_TUNE_JOB, "suspend": True}
    decision = decide(job(spec, placed(startFailure=told)), NOW)
    assert (failure(decision), said(decision)[1]) == (told, "Suspended")


def test_the_last_failure_ends_the_job_with_its_cause() -> None:
    spec = {**TEMPLATE_JOB, "backoffLimit": 1}
    first_seen = since(OLD, ended(1, 1, "a0", finished_at=OLD), pending(age=121, attempt=2), spec=spec, failures=1,
                       countedAttempt=1)  # fmt: skip
    decision = decide(first_seen, NOW)
    status, reason, message = said(decision, "Finished")
    assert (status, reason) == ("True", "ImagePullBackOff")
    assert message == f"2 attempts failed, backoffLimit is 1; ImagePullBackOff: {PULL.message}"
    assert decision.status is not None
    assert (decision.status["failures"], decision.status["state"]) == (2, "Failed")
    assert failure(decision)["counted"] is True
    assert events(decision) == ["NotStarted", "ImagePullBackOff"]
    assert [removal.pod for removal in decision.removals] == ["job-2"]
    again = decide(after(first_seen, decision), NOW)
    assert (again.status, again.notes) == (decision.status, ())


def test_one_failure_below_the_limit_does_not() -> None:
    spec = {**TEMPLATE_JOB, "backoffLimit": 1}
    assert said(decide(since(OLD, pending(age=121), spec=spec), NOW), "Finished")[0] == "False"


def test_a_cause_that_is_not_the_jobs_never_ends_it() -> None:
    spec = {**TEMPLATE_JOB, "backoffLimit": 0}
    decision = decide(since(121, spec=spec, refusal=QUOTA), NOW)
    assert (said(decision, "Finished")[0], failure(decision)["counted"]) == ("False", False)


def test_a_finished_job_has_no_start() -> None:
    conditions = [*PLACED, condition("Finished", "True", "DatasetMissing")]
    decision = decide(since(OLD, pending(age=121), conditions=conditions), NOW)
    assert (failure(decision), said(decision, "Finished")[1]) == ({}, "DatasetMissing")


def test_a_limit_that_is_lowered_later_ends_the_job_with_what_was_told() -> None:
    told = {"assignment": "a1", "reason": "InvalidImageName", "message": "m", "counted": True}
    spec = {**FINE_TUNE_JOB, "backoffLimit": 0}
    status = placed(startFailure=told, failures=1, countedAttempt=1, attempts=1)
    assert said(decide(job(spec, status), NOW), "Finished")[1] == "InvalidImageName"
    told["counted"] = False
    assert said(decide(job(spec, status, pods=(ended(1, 1),)), NOW), "Finished")[1] == "Failed"


def test_a_long_cause_is_cut_to_what_the_api_takes() -> None:
    long = Problem("CreateContainerError", "x" * 2000)
    assert len(failure(decide(since(OLD, pending(long, age=121)), NOW))["message"]) == 1024
