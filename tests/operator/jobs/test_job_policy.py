"""What is decided about an OfflineJob, by table."""

from typing import Any

import pytest
from operator_builders import (
    NODE,
    NOW,
    PLACED,
    TEMPLATE,
    condition,
    device,
    ended,
    job,
    placed,
    pod,
    report,
    running,
    tenant,
)

from rowen.crds.job.worker import WorkerResult
from rowen.kube.timestamps import rfc3339
from rowen.operator.decision import Decision, Refusal
from rowen.operator.jobs.policy import decide
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.pods.view import Problem

DONE = WorkerResult(reason="Completed", message="all rows", unit="rows", completed=9, total=9)
BAD = WorkerResult(reason="DatasetMissing", message="no /volumes/data/x", unit="steps", completed=0, total=0)
SPEC: dict[str, Any] = job().spec.to_wire()


def said(decision: Decision, type_: str) -> tuple[str, str]:
    """Status and reason of a condition of the decision."""
    assert decision.status is not None
    entry = next(entry for entry in decision.status["conditions"] if entry["type"] == type_)
    return entry["status"], entry["reason"]


def state(decision: Decision) -> str:
    assert decision.status is not None
    return str(decision.status["state"])


CASES: list[tuple[str, JobSnapshot, str, str, int, int]] = [
    # name, snapshot, Running's reason, state, pods made, pods removed
    ("new", job(), "NotPlaced", "Pending", 0, 0),
    ("placed", job(status=placed()), "Starting", "Starting", 1, 0),
    ("placed no more", job(status=placed(conditions=[condition("Placed", "False")])), "NotPlaced", "Pending", 0, 0),
    ("lease run out", job(status=placed(renewed=NOW - 31)), "LeaseExpired", "LeaseExpired", 0, 0),
    (
        "lease renewed by the report",
        job(status=placed(renewed=NOW - 31), reports=(report(time=NOW - 2),)),
        "Starting", "Starting", 1, 0,
    ),
    ("pending", job(status=placed(), pods=(pod(),)), "Starting", "Starting", 0, 0),
    ("running", job(status=placed(), pods=(running(),)), "Running", "Running", 0, 0),
    ("withdrawn", job(status={"conditions": []}, pods=(running(),)), "NotPlaced", "Pending", 0, 1),
    ("moved", job(status=placed("a2"), pods=(running(),)), "Stopping", "Stopping", 0, 1),
    (
        "moved, the old pod stops",
        job(status=placed("a2"), pods=(running(deletion_deadline=NOW + 5),)),
        "Stopping", "Stopping", 0, 0,
    ),
    ("suspended", job({**SPEC, "suspend": True}, placed(), pods=(running(),)), "Suspended", "Suspended", 0, 1),
    ("two pods by mistake", job(status=placed(), pods=(running(1), running(2))), "Running", "Running", 0, 1),
    ("pod removed by somebody", job(status=placed(attempts=1, countedAttempt=0)), "Starting", "Starting", 1, 0),
    (
        "no image",
        job(status=placed(), pods=(pod(problem=Problem("ImagePullBackOff", "no such image")),)),
        "ImagePullBackOff", "ImagePullBackOff", 0, 0,
    ),
    ("crashed", job(status=placed(), pods=(ended(1, 1),)), "BackOff", "BackOff", 0, 0),
    ("crashed long ago", job(status=placed(), pods=(ended(1, 1, finished_at=NOW - 11),)), "Starting", "Starting", 1, 0),
    (
        "second crash waits longer",
        job(status=placed(failures=1, countedAttempt=1), pods=(ended(2, 1, finished_at=NOW - 11),)),
        "BackOff", "BackOff", 0, 0,
    ),
    ("completed", job(status=placed(), pods=(ended(result=DONE),)), "Finished", "Completed", 0, 0),
    ("completed without words", job(status=placed(), pods=(ended(),)), "Finished", "Completed", 0, 0),
    ("user error", job(status=placed(), pods=(ended(1, 64, result=BAD),)), "Finished", "Failed", 0, 0),
    (
        "64 of a template is any failure",
        job({"template": TEMPLATE}, placed(), pods=(ended(1, 64),)),
        "BackOff", "BackOff", 0, 0,
    ),
    (
        "out of attempts",
        job(status=placed(failures=3, countedAttempt=3), pods=(ended(4, 1),)),
        "Finished", "Failed", 0, 0,
    ),
    (
        "evicted by the kubelet",
        job({**SPEC, "backoffLimit": 0}, placed(), pods=(ended(1, 1, disrupted=True, finished_at=NOW - 11),)),
        "Starting", "Starting", 1, 0,
    ),
    (
        "stopped by us with an exit code",
        job({**SPEC, "backoffLimit": 0}, placed("a2"), pods=(ended(1, 143, deletion_deadline=NOW),)),
        "Starting", "Starting", 1, 0,
    ),
    (
        "exit code 0 on being stopped is not completion",
        job(status=placed("a2"), pods=(ended(1, 0, deletion_deadline=NOW),)),
        "Starting", "Starting", 1, 0,
    ),
    (
        "completed while being stopped",
        job(status=placed("a2"), pods=(ended(1, 0, deletion_deadline=NOW, result=DONE),)),
        "Finished", "Completed", 0, 0,
    ),
    (
        "forbidden",
        job(status=placed(), refusal=Refusal(403, "exceeded quota")),
        "PodForbidden", "PodForbidden", 0, 0,
    ),
    (
        "invalid template",
        job({"template": TEMPLATE}, placed(), refusal=Refusal(422, "spec.containers: Required")),
        "Finished", "Failed", 0, 0,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("snapshot", "reason", "state_", "made", "removed"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_decision(snapshot: JobSnapshot, reason: str, state_: str, made: int, removed: int) -> None:
    decision = decide(snapshot, NOW)
    assert said(decision, "Running")[1] == reason
    assert state(decision) == state_
    assert len(decision.children) == made
    assert len(decision.removals) == removed


def withdrawn(reason: str, message: str) -> dict[str, Any]:
    """The status of a job from which the scheduler has taken its place."""
    return {"conditions": [{**condition("Placed", "False", reason), "message": message}]}


LOST = withdrawn("SLAViolated", "n/cpu0: measured 0.10 < SLA 0.30")


@pytest.mark.parametrize(
    ("spec", "status", "why"),
    [
        (SPEC, LOST, "its assignment was withdrawn: SLAViolated: n/cpu0: measured 0.10 < SLA 0.30"),
        (SPEC, withdrawn("NodeLost", ""), "its assignment was withdrawn: NodeLost"),
        # Why a job waits is not why it lost its place.
        (SPEC, withdrawn("Waiting", "no candidate holds"), "its assignment was withdrawn"),
        (SPEC, {"conditions": []}, "its assignment was withdrawn"),
        (
            SPEC, placed("a2", node="node-2"),
            "its assignment was withdrawn; assignment a2 on node node-2 has taken its place",
        ),
        ({**SPEC, "suspend": True}, LOST, "the job is suspended"),
    ],
)  # fmt: skip
def test_a_removal_says_why_the_scheduler_took_the_place_away(
    spec: dict[str, Any], status: dict[str, Any], why: str
) -> None:
    decision = decide(job(spec, status, pods=(running(),)), NOW)
    assert [removal.reason for removal in decision.removals] == [why]
    assert [note.message for note in decision.notes] == [f"pod job-1 removed: {why}"]


def test_of_two_pods_the_older_goes_for_the_later_one() -> None:
    decision = decide(job(status=placed(), pods=(running(1), running(2))), NOW)
    assert [(removal.pod, removal.reason) for removal in decision.removals] == [
        ("job-1", "a later pod has its assignment")
    ]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            LOST,
            "the scheduler has not placed the job; "
            "it withdrew the last assignment: SLAViolated: n/cpu0: measured 0.10 < SLA 0.30",
        ),
        (withdrawn("Waiting", "no candidate holds"), "the scheduler has not placed the job"),
        (withdrawn("Suspended", "spec.suspend is set"), "the scheduler has not placed the job"),
    ],
)
def test_a_job_that_lost_its_place_says_why(status: dict[str, Any], message: str) -> None:
    decision = decide(job(status=status), NOW)
    assert decision.status is not None
    running_ = next(entry for entry in decision.status["conditions"] if entry["type"] == "Running")
    assert (running_["reason"], running_["message"]) == ("NotPlaced", message)


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_a_decision_is_stable(case: tuple[str, JobSnapshot, str, str, int, int]) -> None:
    """Decided again on its own status, nothing is counted twice and no transition moves."""
    snapshot = case[1]
    first = decide(snapshot, NOW)
    assert first.status is not None
    own = {entry["type"] for entry in first.status["conditions"]}
    others = [entry.to_wire() for entry in snapshot.status.conditions if entry.type not in own]
    merged = snapshot.status.to_wire() | dict(first.status) | {"conditions": others + first.status["conditions"]}
    again = decide(
        JobSnapshot(
            namespace=snapshot.namespace,
            name=snapshot.name,
            uid=snapshot.uid,
            generation=snapshot.generation,
            spec=snapshot.spec,
            status=type(snapshot.status).from_wire(merged),
            runtime_image=snapshot.runtime_image,
            start_deadline_seconds=snapshot.start_deadline_seconds,
            pods=snapshot.pods + ((pod(first.status["attempts"]),) if first.children else ()),
            reports=snapshot.reports,
            refusal=snapshot.refusal,
        ),
        NOW + 0.1,
    )
    if not first.children:
        assert again.status == first.status
    assert again.status is not None
    assert again.status["failures"] == first.status["failures"]
    assert not again.children


def test_a_counted_failure_is_not_counted_again() -> None:
    decision = decide(job(status=placed(failures=1, attempts=1, countedAttempt=1), pods=(ended(1, 1),)), NOW)
    assert decision.status is not None
    assert decision.status["failures"] == 1
    assert not [note for note in decision.notes if note.reason == "AttemptFailed"]


def test_backoff_says_when_to_come_back() -> None:
    decision = decide(job(status=placed(), pods=(ended(1, 1, finished_at=NOW - 4),)), NOW)
    assert decision.requeue_seconds == pytest.approx(6)


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (job(status=placed(), pods=(ended(1, 64, result=BAD),)), "DatasetMissing"),
        (
            job({**SPEC, "backoffLimit": 0}, placed(), pods=(ended(1, 137, end_reason="OOMKilled"),)),
            "OOMKilled",
        ),
        (job({**SPEC, "backoffLimit": 0}, placed(), pods=(ended(1, 1),)), "Failed"),
        (job(status=placed(), pods=(ended(result=DONE),)), "Completed"),
    ],
)
def test_finished_tells_why(snapshot: JobSnapshot, reason: str) -> None:
    decision = decide(snapshot, NOW)
    assert said(decision, "Finished") == ("True", reason)
    assert [note.reason for note in decision.notes][-1] == reason


@pytest.mark.parametrize(
    ("exit_code", "reason", "hinted"),
    [(137, "Error", True), (137, "OOMKilled", False), (1, "Error", False), (None, "Error", False)],
)
def test_of_a_pod_that_was_killed_it_says_where_to_look(exit_code: int | None, reason: str, hinted: bool) -> None:
    killed = ended(1, exit_code=exit_code, phase="Failed", end_reason=reason, end_message="last words")
    (note,) = (
        note for note in decide(job(status=placed(), pods=(killed,)), NOW).notes if note.reason == "AttemptFailed"
    )
    code = "" if exit_code is None else f" (exit code {exit_code})"
    hint = "; it was killed: `kubectl describe pod job-1` may say by whom, in its events" if hinted else ""
    assert note.message == f"attempt 1: {reason}{code}: last words{hint}"


@pytest.mark.parametrize(
    ("reported", "deadline", "forced"),
    [
        (NOW - 5, NOW - 100, False),  # the node lives: its kubelet will do it
        (NOW - 40, NOW - 100, False),  # silent, but its lease may have been renewed by its last report
        (NOW - 61, NOW - 100, True),
        (None, NOW - 100, True),
        (NOW - 300, NOW - 10, False),  # the kubelet still has time
    ],
)
def test_a_lost_nodes_pod_goes_by_force_once_its_lease_has_run_out(
    reported: float | None, deadline: float, forced: bool
) -> None:
    reports = () if reported is None else (report(time=reported),)
    snapshot = job(
        status={"conditions": [condition("Placed", "False", "NodeLost")]},
        pods=(running(deletion_deadline=deadline),),
        reports=reports,
    )
    assert [removal.force for removal in decide(snapshot, NOW).removals] == [True] * forced


@pytest.mark.parametrize(
    ("places", "time", "expected"),
    [
        ([device(gateOpen=False, tenants=[tenant(preemptions=4)])], NOW, ("True", "GateClosed")),
        ([device(gateOpen=True, tenants=[tenant(preemptions=4)])], NOW, ("False", "GateOpen")),
        (
            [device("a", tenants=[tenant()]), device("b", gateOpen=False, tenants=[tenant()])],
            NOW,
            ("True", "GateClosed"),
        ),
        ([device(tenants=[tenant(attached=False)])], NOW, ("Unknown", "NotAttached")),
        ([device(tenants=[tenant("other")])], NOW, ("Unknown", "NoReport")),
        ([device(gateOpen=False, tenants=[tenant()])], NOW - 60, ("Unknown", "NoReport")),
    ],
)
def test_preempted(places: list[dict[str, Any]], time: float, expected: tuple[str, str]) -> None:
    snapshot = job(status=placed(), pods=(running(),), reports=(report(*places, time=time),))
    decision = decide(snapshot, NOW)
    assert said(decision, "Preempted") == expected
    assert state(decision) == ("Preempted" if expected[0] == "True" else "Running")


def test_progress_follows_the_report_and_outlives_it() -> None:
    busy = report(device(tenants=[tenant(completed=7, total=40)]))
    first = decide(job(status=placed(), pods=(running(),), reports=(busy,)), NOW)
    assert first.status is not None
    assert first.status["progress"]["completed"] == 7
    later = decide(job(status=placed(progress=first.status["progress"]), pods=(running(),)), NOW)
    assert later.status is not None
    assert later.status["progress"]["completed"] == 7


def test_a_finished_job_gets_no_pod_and_keeps_its_reason() -> None:
    status = placed(conditions=[*PLACED, condition("Finished", "True", "DatasetMissing")])
    decision = decide(job(status=status), NOW)
    assert not decision.children
    assert said(decision, "Finished") == ("True", "DatasetMissing")


@pytest.mark.parametrize("node", [NODE, "node-2"])
def test_a_pod_of_another_job_manager_or_a_deleted_job_is_none_of_ours(node: str) -> None:
    theirs = decide(job({**SPEC, "managedBy": "x.com/y"}, placed(node=node), pods=(running(),)), NOW)
    assert (theirs.status, theirs.children, theirs.removals) == (None, (), ())
    gone = decide(job(status=placed(node=node), deletionTimestamp=rfc3339(NOW)), NOW)
    assert (gone.status, gone.children, gone.removals) == (None, (), ())


def test_managed_by_the_operator_is_the_operators() -> None:
    assert decide(job({**SPEC, "managedBy": "rowen.dev/operator"}, placed()), NOW).children


def progress(snapshot: JobSnapshot) -> tuple[str, int, int] | None:
    status = decide(snapshot, NOW).status
    assert status is not None
    told = status.get("progress")
    return (told["unit"], told["completed"], told["total"]) if told else None


def test_progress_is_the_worker_s_last_word_once_no_pod_is_left() -> None:
    """While another attempt is there, what the one before it said is over."""
    before = {"unit": "steps", "completed": 5, "total": 9}
    stopped = ended(1, 143, "a0", deletion_deadline=NOW, result=WorkerResult(
        reason="Failed", message="stopped", unit="steps", completed=8, total=9))  # fmt: skip
    assert progress(job(status=placed(progress=before), pods=(stopped,))) == ("steps", 8, 9)
    assert progress(job(status=placed(progress=before), pods=(stopped, running(2)))) == ("steps", 5, 9)
    assert progress(job(status=placed(progress=before), pods=(ended(result=DONE),))) == ("rows", 9, 9)
    assert progress(job(status=placed(), pods=(ended(1, 1),))) is None


def test_progress_is_not_the_word_of_an_attempt_before_one_that_is_gone() -> None:
    said = WorkerResult(reason="RideLost", message="no engine", unit="rows", completed=20, total=1800)
    before = {"unit": "rows", "completed": 29, "total": 1800}
    left = (ended(4, 1, result=said),)
    assert progress(job(status=placed(attempts=5, progress=before), pods=left)) == ("rows", 29, 1800)
    assert progress(job(status=placed(attempts=4, progress=before), pods=left)) == ("rows", 20, 1800)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (tenant(completed=7, total=40), ("steps", 7, 40)),
        (tenant(completed=7, total=0), None),
        (tenant(completed=7), None),
        (tenant("other", completed=7, total=40), None),
    ],
)
def test_progress_is_read_from_the_report_of_the_pod_that_lives(
    entry: dict[str, Any], expected: tuple[str, int, int] | None
) -> None:
    reports = (report(device(tenants=[entry])),)
    assert progress(job(status=placed(), pods=(running(),), reports=reports)) == expected


def test_an_old_report_says_nothing_of_progress() -> None:
    reports = (report(device(tenants=[tenant(completed=7, total=40)]), time=NOW - 60),)
    assert progress(job(status=placed(), pods=(running(),), reports=reports)) is None


def notes(snapshot: JobSnapshot) -> list[tuple[str, str, str]]:
    return [(note.type, note.reason, note.message) for note in decide(snapshot, NOW).notes]


def test_a_problem_is_noted_when_it_is_new() -> None:
    no_image = pod(problem=Problem("ImagePullBackOff", "no such image"))
    said_before = [*PLACED, condition("Running", "False", "ImagePullBackOff")]
    otherwise = [*PLACED, condition("Running", "False", "Starting")]
    note = ("Warning", "ImagePullBackOff", "no such image")
    assert notes(job(status=placed(), pods=(no_image,))) == [note]
    assert notes(job(status=placed(conditions=otherwise), pods=(no_image,))) == [note]
    assert notes(job(status=placed(conditions=said_before), pods=(no_image,))) == []
    assert notes(job(status=placed(), pods=(pod(),))) == []
    assert notes(job(status=placed(), pods=(running(problem=Problem("CrashLoopBackOff", "m")),))) == []
    assert notes(job(status=placed(), refusal=Refusal(403, "quota"))) == [("Warning", "PodForbidden", "quota")]


def test_the_status_counts_the_pod_that_is_made() -> None:
    decision = decide(job(status=placed(attempts=3)), NOW)
    assert decision.status is not None
    assert (decision.status["attempts"], decision.status["failures"]) == (4, 0)
    assert [child["metadata"]["name"] for child in decision.children] == ["job-4"]
    assert notes(job(status=placed(attempts=3))) == [("Normal", "Started", "attempt 4 on node node-1, devices cpu1")]


def test_a_job_started_with_its_first_pod() -> None:
    pods = (ended(1, 1, started_at=NOW - 500), running(2, started_at=NOW - 60), pod(3))
    decision = decide(job(status=placed(), pods=pods), NOW)
    assert decision.status is not None
    assert decision.status["startTime"] == rfc3339(NOW - 500)
    kept = decide(job(status=placed(startTime=rfc3339(NOW - 900)), pods=pods), NOW)
    assert kept.status is not None
    assert kept.status["startTime"] == rfc3339(NOW - 900)


@pytest.mark.parametrize(
    ("snapshot", "seconds"),
    [
        (job(status=placed(), refusal=Refusal(403, "quota")), 30.0),
        (job(status=placed("a2"), pods=(running(),)), 30.0),
        (job(status=placed(), pods=(running(1, deletion_deadline=NOW + 5), running(2))), 30.0),
        (job(status=placed(), pods=(ended(1, 1, finished_at=NOW - 4),)), 6.0),
        (job(status=placed(), pods=(ended(1, 1, finished_at=NOW - 9.99),)), 0.1),
        (job(status=placed(), pods=(running(),)), None),
    ],
)
def test_when_to_decide_again(snapshot: JobSnapshot, seconds: float | None) -> None:
    assert decide(snapshot, NOW).requeue_seconds == seconds


@pytest.mark.parametrize(
    ("snapshot", "result"),
    [
        (job(status=placed(), pods=(ended(result=DONE),)), "all rows"),
        (job(status=placed(result="before"), pods=(ended(1, 1),)), "before"),
        # What a worker says that was told to stop is not the job's result.
        (job(status=placed("a2", result="before"), pods=(ended(1, 143, result=BAD, deletion_deadline=NOW),)), "before"),
        (job(status=placed()), None),
    ],
)
def test_the_result_is_the_last_workers(snapshot: JobSnapshot, result: str | None) -> None:
    status = decide(snapshot, NOW).status
    assert status is not None
    assert status.get("result") == result


@pytest.mark.parametrize(("age", "wait"), [(0.0, 5.0), (2.0, 3.0), (4.0, 1.0), (5.0, None), (-1.0, None), (60.0, None)])
def test_a_new_jobs_first_status_waits_for_the_scheduler(age: float, wait: float | None) -> None:
    decision = decide(job(creationTimestamp=rfc3339(NOW - age)), NOW)
    assert (decision.status is None, decision.requeue_seconds) == (wait is not None, wait)
    assert decision.children == decision.removals == decision.notes == ()
    if wait is None:
        assert state(decision) == "Pending"


def test_once_the_scheduler_has_spoken_nothing_waits() -> None:
    created = rfc3339(NOW - 1)
    waiting = {"conditions": [condition("Admitted", "True"), condition("Placed", "False", "Waiting")]}
    assert state(decide(job(status=waiting, creationTimestamp=created), NOW)) == "Pending"
    assert len(decide(job(status=placed(), creationTimestamp=created), NOW).children) == 1


def test_a_new_job_that_cannot_be_run_is_told_at_once() -> None:
    wrong = {"template": {"spec": {"containers": []}}}
    assert state(decide(job(wrong, creationTimestamp=rfc3339(NOW)), NOW)) == "Failed"


def test_pods_of_a_job_without_a_status_are_seen_to_at_once() -> None:
    decision = decide(job(pods=(running(),), creationTimestamp=rfc3339(NOW)), NOW)
    assert len(decision.removals) == 1
