"""How attempts ended, which count, and when the next may start: values by hand."""

from typing import Any

import pytest
from operator_builders import NOW, TEMPLATE, ended, job, pod, running

from rowen.crds.job.worker import WorkerResult
from rowen.operator.jobs.attempts import Ending, attempts_of, backoff_seconds, ending_of
from rowen.operator.pods.view import PodView

DONE = WorkerResult(reason="Completed", message="all", unit="rows", completed=9, total=9)
BAD = WorkerResult(reason="DiskFull", message="no room", unit="rows", completed=1, total=9)
GOING: dict[str, Any] = {"deletion_deadline": NOW + 30}


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 10), (1, 10), (2, 20), (3, 40), (5, 160), (6, 320), (7, 360), (8, 360), (100_000, 360)],
)
def test_the_pause_doubles_up_to_six_minutes(failures: int, seconds: float) -> None:
    assert backoff_seconds(failures) == seconds


@pytest.mark.parametrize(
    ("view", "native", "own"),
    [
        (ended(), "Completed", "Completed"),
        (ended(result=DONE), "Completed", "Completed"),
        (ended(result=BAD), "Completed", "Completed"),
        # Who is asked to go may end with 0 in the midst of its work.
        (ended(**GOING), "Removed", "Removed"),
        (ended(result=BAD, **GOING), "Removed", "Removed"),
        (ended(result=DONE, **GOING), "Completed", "Completed"),
        (ended(1, 64), "UserError", "Failure"),
        (ended(1, 64, disrupted=True), "UserError", "Infrastructure"),
        (ended(1, 1), "Failure", "Failure"),
        (ended(1, 1, result=DONE), "Failure", "Failure"),
        (ended(1, 1, **GOING), "Removed", "Removed"),
        (ended(1, 1, disrupted=True), "Infrastructure", "Infrastructure"),
        (ended(1, 1, disrupted=True, **GOING), "Removed", "Removed"),
    ],
)
def test_how_a_pod_ended(view: PodView, native: Ending, own: Ending) -> None:
    """64 is the user's fault by the contract of Rowen's own workers; another program may mean what it likes by it."""
    assert (ending_of(view, native=True), ending_of(view, native=False)) == (native, own)


def test_each_failure_counts_once() -> None:
    pods = (ended(2, 1), ended(3, 1), ended(4, 64), ended(5, 1, disrupted=True), ended(6, 1, **GOING), running(7))
    found = attempts_of(job(status={"attempts": 6, "failures": 2, "countedAttempt": 2}, pods=pods))
    assert [view.attempt for view in found.newly_failed] == [3, 4]
    assert (found.started, found.counted, found.failures) == (7, 6, 4)
    assert found.last_ended is pods[4]
    assert found.last_ending == "Removed"
    assert found.next_start is None


def test_attempts_whose_pods_are_gone_stay_counted() -> None:
    found = attempts_of(job(status={"attempts": 6, "failures": 2, "countedAttempt": 5}, pods=(ended(4, 1),)))
    assert (found.started, found.counted, found.failures, found.newly_failed) == (6, 5, 2, ())


def test_before_the_first_attempt_nothing_is_counted() -> None:
    found = attempts_of(job())
    assert (found.started, found.counted, found.failures, found.newly_failed) == (0, 0, 0, ())
    assert (found.last_ended, found.last_ending, found.next_start) == (None, None, None)


@pytest.mark.parametrize(
    ("pods", "seconds"),
    [
        ((ended(1, 1),), 10),
        ((ended(1, 1), ended(2, 1)), 20),
        ((ended(1, 1), ended(2, 1), ended(3, 1)), 40),
        ((ended(1, 64),), None),
        ((ended(1),), None),
        # What the cluster is to blame for counts by the assignment.
        ((ended(1, 1, disrupted=True),), 10),
        ((ended(1, 1, disrupted=True), ended(2, 1, disrupted=True)), 20),
        ((ended(1, 1, "a0", disrupted=True), ended(2, 1, "a0", disrupted=True), ended(3, 1, disrupted=True)), 10),
        ((ended(1, 1), ended(2, 1, disrupted=True)), 10),
        ((ended(1, 1, disrupted=True), ended(2, 1)), 10),
        ((ended(1, 1, finished_at=None),), None),
    ],
)
def test_when_the_next_attempt_may_start(pods: tuple[PodView, ...], seconds: float | None) -> None:
    expected = None if seconds is None else NOW - 1 + seconds
    assert attempts_of(job(pods=pods)).next_start == expected


def test_a_template_that_ends_with_64_is_tried_again() -> None:
    found = attempts_of(job({"template": TEMPLATE}, pods=(ended(1, 64),)))
    assert (found.last_ending, found.failures, found.next_start) == ("Failure", 1, NOW - 1 + 10)


def test_a_start_that_failed_counts_with_its_pod() -> None:
    found = attempts_of(job(status={"failures": 1, "countedAttempt": 2}, pods=(pod(3),)))
    assert (found.failures, found.counted) == (1, 2)
    there, gone = found.with_failed_start(pod(3)), found.with_failed_start(None)
    assert (there.failures, there.counted) == (2, 3)
    assert (gone.failures, gone.counted) == (2, 2)
    assert found.with_failed_start(pod(1)).counted == 2
    assert attempts_of(job()).with_failed_start(None).counted == 0
