"""Where a job may run, what is said of that, and what delays its start."""

from typing import Any

import pytest
from operator_builders import FINE_TUNE, NOW, TEMPLATE, condition, ended, job, placed, pod, report, running

from rowen.operator.decision import Refusal
from rowen.operator.jobs.attempts import attempts_of
from rowen.operator.jobs.delay import Delay, Place, place_of
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.pods.view import PodView, Problem

TAINT = Problem("Unschedulable", "0/2 nodes are available")
OVERLAID = {"fineTune": FINE_TUNE, "podTemplate": {"metadata": {"labels": {"a": "b"}}}}
LOST = {"conditions": [{**condition("Placed", "False", "NodeLost"), "message": "node-1 is silent"}]}


def place(snapshot: JobSnapshot) -> Place:
    return place_of(snapshot, attempts_of(snapshot), NOW)


def turned_away(attempt: int, **values: Any) -> PodView:
    said = {"end_reason": "NodeAffinity", "end_message": "Pod was rejected", "disrupted": True}
    return pod(attempt, **{"phase": "Failed", "finished_at": NOW - 1, **said, **values})


def test_of_the_assignments_pods_the_latest_that_lives_is_its_pod() -> None:
    others = (running(1), running(2), running(3, "a0"), running(4, deletion_deadline=NOW + 9), ended(5, 1))
    found = place(job(status=placed(), pods=others))
    assert (found.pod, found.running.reason, found.delay) == (others[1], "Running", None)
    assert found.assignment is not None
    assert found.assignment.id == "a1"


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (job(status=placed(attempts=3)), ("False", "Starting", "pod job-4 is starting")),
        (job(status=placed(), pods=(pod(2),)), ("False", "Starting", "pod job-2 is starting")),
        (job(status=LOST, pods=(ended(1, 1, finished_at=NOW - 11),)), ("False", "NotPlaced",
         "the scheduler has not placed the job; it withdrew the last assignment: NodeLost: node-1 is silent")),
        # What was over at this moment is over.
        (job(status=placed(), pods=(ended(1, 1, finished_at=NOW - 10),)), ("False", "Starting",
         "pod job-2 is starting")),
        (job(status=placed(), pods=(ended(1, 1, finished_at=NOW - 9.5),)), ("False", "BackOff",
         "attempt 1: Error (exit code 1); attempts failed so far: 1")),
        (job(status=placed(renewed=NOW - 30)), ("False", "Starting", "pod job-1 is starting")),
        (job(status=placed(renewed=NOW - 31)), ("False", "LeaseExpired",
         "node node-1 has not renewed the assignment's lease")),
        # Whichever was later renews the lease.
        (job(status=placed(renewed=NOW - 30), reports=(report(time=NOW - 99),)), ("False", "Starting",
         "pod job-1 is starting")),
        (job(status=placed(renewed=NOW - 99), reports=(report(time=NOW - 31),)), ("False", "LeaseExpired",
         "node node-1 has not renewed the assignment's lease")),
        (job(status=placed(), refusal=Refusal(409, "it exists")), ("False", "NameTaken", "it exists")),
        (job(status=placed(), refusal=Refusal(403, "quota")), ("False", "PodForbidden", "quota")),
        (job(status=placed(), refusal=Refusal(0, "no answer")), ("False", "PodRefused", "no answer")),
        (job(status=placed(), pods=(running(3, "a0"), running(4, "a0"))), ("False", "Stopping",
         "pod job-3 has to stop before the next attempt starts")),
    ],
)  # fmt: skip
def test_what_is_said(snapshot: JobSnapshot, words: tuple[str, str, str]) -> None:
    said = place(snapshot).running
    assert (said.status, said.reason, said.message) == words


def test_a_job_without_a_place_has_no_delay_whatever_ended_before() -> None:
    suspended = {**job().spec.to_wire(), "suspend": True}
    for snapshot in (job(status=LOST, pods=(ended(1, 1),)), job(suspended, placed(), pods=(turned_away(1),))):
        found = place(snapshot)
        assert (found.assignment, found.pod, found.delay) == (None, None, None)


def test_the_last_attempt_of_the_assignment_says_whether_the_node_turns_pods_away() -> None:
    last = (ended(1, 1), turned_away(2))
    assert place(job(status=placed(), pods=last)).delay == Delay(
        "NodeAffinity", "attempt 2: NodeAffinity: Pod was rejected", "Node", "turned away"
    )
    for pods in ((turned_away(1), ended(2, 1)), (turned_away(1, assignment_id="a0"),), (turned_away(1), ended(2, 1))):
        found = place(job(status=placed(), pods=pods))
        assert (found.running.reason, found.delay) == ("BackOff", None)


@pytest.mark.parametrize(
    ("deadlines", "until"),
    [
        ((NOW + 5, NOW + 7), NOW + 37),
        ((NOW + 7, NOW + 5), NOW + 37),
        ((NOW + 5, None), NOW + 35),
    ],
)
def test_older_pods_are_waited_for_as_long_as_the_last_of_them_may_take(
    deadlines: tuple[float | None, ...], until: float
) -> None:
    pods = tuple(running(number, "a0", deletion_deadline=time) for number, time in enumerate(deadlines, 1))
    delay = place(job(status=placed(), pods=pods)).delay
    assert delay is not None
    assert (delay.reason, delay.cause, delay.obstacle, delay.not_before) == ("Stopping", "Cluster", "stop p1", until)


def test_a_refused_pod_is_an_obstacle_by_its_attempt() -> None:
    delay = place(job(status=placed(attempts=3), refusal=Refusal(403, "quota"))).delay
    assert delay is not None
    assert (delay.obstacle, delay.cause, delay.reason) == ("make 4", "Cluster", "PodForbidden")


@pytest.mark.parametrize(
    ("problem", "cause"),
    [
        (TAINT, "Node"),
        (Problem("SchedulingGated", ""), "Cluster"),
        (Problem("ErrImagePull", "not found", "worker"), "Node"),
    ],
)
def test_a_pods_problem_delays_by_that_pod(problem: Problem, cause: str) -> None:
    delay = place(job(status=placed(), pods=(pod(2, problem=problem),))).delay
    assert delay == Delay(problem.reason, problem.message, cause, "pod p2")


@pytest.mark.parametrize(
    ("snapshot", "idle"),
    [
        (job(status=placed(), pods=(running(1, "a0"),)), True),
        (job(status=placed(), pods=(pod(),)), False),
        (job(status=placed(), pods=(pod(initializing=True),)), True),
        (job(status=placed(), pods=(ended(1, 1),)), True),
        (job(status=placed(), pods=(turned_away(1),)), False),
        (job(status=placed(renewed=NOW - 31)), True),
        (job(status=placed(), refusal=Refusal(403, "quota")), False),
        (job(status=placed()), False),
    ],
)
def test_idle_while_no_pod_could_be_starting(snapshot: JobSnapshot, idle: bool) -> None:
    assert place(snapshot).idle is idle


@pytest.mark.parametrize("spec", [None, OVERLAID])
@pytest.mark.parametrize(
    ("problem", "own"),
    [
        (Problem("CreateContainerConfigError", 'configmap "settings" not found', "worker"), True),
        (Problem("CreateContainerConfigError", "timed out waiting for the condition", "worker"), False),
        (Problem("ErrImagePull", "not found", "worker"), False),
        (Problem("CreateContainerError", "no such device", "worker"), False),
        (TAINT, False),
    ],
)
def test_of_a_worker_the_sources_of_its_variables_are_its_users(
    spec: dict[str, Any] | None, problem: Problem, own: bool
) -> None:
    delay = place(job(spec, placed(), pods=(pod(2, problem=problem),))).delay
    assert delay is not None
    assert delay.cause == ("Job" if own and spec else "Node")


@pytest.mark.parametrize(("template", "cause"), [({"template": TEMPLATE}, "Job"), (OVERLAID, "Job"), (None, "Cluster")])
@pytest.mark.parametrize("code", [403, 500])
def test_pod_security_is_the_fault_of_a_template(template: dict[str, Any] | None, cause: str, code: int) -> None:
    refusal = Refusal(code, 'violates PodSecurity "baseline"')
    delay = place(job(template, placed(), refusal=refusal)).delay
    assert delay is not None
    assert delay.cause == (cause if code == 403 else "Cluster")


def test_a_pod_that_says_nothing_is_told_with_where_it_is() -> None:
    bound, unbound = (place(job(status=placed(), pods=(pod(node=node),))).delay for node in ("node-1", None))
    assert bound == Delay(
        "StartDeadlineExceeded",
        "pod job-1 has not started within 600 s on node node-1; its status does not say why, "
        "`kubectl describe pod job-1` shows its events",
        "Node",
        None,
    )
    assert unbound is not None
    assert "within 600 s and kube-scheduler has not bound it; its status" in unbound.message
