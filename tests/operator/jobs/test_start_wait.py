"""The wait for a tenant: since when, and since when with a problem, in time that the operator listened to."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from operator_builders import (
    GAP_SECONDS,
    IMAGE,
    NOW,
    PLACED,
    START_DEADLINE_SECONDS,
    condition,
    ended,
    job,
    job_manifest,
    placed,
    running,
)
from operator_builders import pod as pending

from rowen.kube.timestamps import rfc3339
from rowen.operator.decision import Refusal
from rowen.operator.jobs.policy import decide
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.jobs.start import waited
from rowen.operator.jobs.start_wait import StartWait
from rowen.operator.pods.view import PodView, Problem
from rowen.operator.world.snapshots import World, groups
from rowen.operator.world.store import Key, Store

JOB = Key("OfflineJob", "team", "job")
PULL = Problem("ErrImagePull", "connection reset", "worker")
BACK_OFF = Problem("ImagePullBackOff", "Back-off", "worker")
BEFORE = StartWait("a1", 1, NOW - 500, "pod p1", NOW - 90, "Node")
BEGUN = replace(BEFORE, problem_since=NOW)
SILENT = StartWait("a1", 1, NOW - 500)
MAKING = StartWait("a1", 1, NOW - 500, "make 1", NOW - 90, "Cluster")
TURNED_AWAY = replace(BEFORE, obstacle="turned away")
STOPPING = StartWait("a1", 1, None, "stop p1", NOW, "Cluster")
QUOTA = Refusal(403, "exceeded quota")
SPEC = job().spec.to_wire()


def snapshot(*pods: PodView, id_: str = "a1", **values: Any) -> JobSnapshot:
    return job(status=placed(id_, made=NOW - 9999), pods=pods, **values)


def turned_away(attempt: int = 2, ago: float = 1.0) -> PodView:
    return pending(attempt, phase="Failed", finished_at=NOW - ago, end_reason="NodeAffinity", disrupted=True)


ADVANCES: list[tuple[str, JobSnapshot, StartWait | None, StartWait | None]] = [
    ("first seen", snapshot(), None, StartWait("a1", 0, NOW)),
    ("first seen with a problem", snapshot(pending(problem=PULL)), None,
     StartWait("a1", 0, NOW, "pod p1", NOW, "Node")),
    ("silent still", snapshot(pending()), BEFORE, BEFORE),
    ("a pod can be made", snapshot(), BEFORE, BEFORE),
    ("the problem stays", snapshot(pending(problem=PULL)), BEFORE, BEFORE),
    ("its words change", snapshot(pending(problem=BACK_OFF)), BEFORE, BEFORE),
    ("a problem comes", snapshot(pending(problem=PULL)), SILENT, BEGUN),
    ("another attempt has one", snapshot(pending(2, problem=PULL)), BEFORE,
     replace(BEFORE, obstacle="pod p2", problem_since=NOW)),
    ("a pod is refused", snapshot(refusal=QUOTA), SILENT, replace(MAKING, problem_since=NOW)),
    ("it is refused otherwise", snapshot(refusal=Refusal(0, "timed out")), MAKING, MAKING),
    ("a later one is refused", snapshot(turned_away(ago=60), refusal=QUOTA), MAKING,
     replace(MAKING, obstacle="make 3", problem_since=NOW)),
    ("it could be made at last", snapshot(pending(problem=PULL)), MAKING, BEGUN),
    ("a pod is turned away", snapshot(turned_away()), SILENT, replace(TURNED_AWAY, problem_since=NOW)),
    ("so is the next", snapshot(turned_away(attempt=3)), TURNED_AWAY, TURNED_AWAY),
    ("turned away long ago", snapshot(turned_away(ago=60)), TURNED_AWAY, TURNED_AWAY),
    ("an older pod stops", snapshot(running(assignment_id="a0")), BEFORE,
     STOPPING),
    ("it begins to stop", snapshot(running(assignment_id="a0")), None, STOPPING),
    ("it stops still", snapshot(running(assignment_id="a0")), replace(STOPPING, problem_since=NOW - 300),
     replace(STOPPING, problem_since=NOW - 300)),
    ("another one stops", snapshot(running(2, assignment_id="a0")), replace(STOPPING, attempt=2, problem_since=NOW - 9),
     replace(STOPPING, attempt=2, obstacle="stop p2")),
    ("it has stopped", snapshot(pending(2, problem=PULL)), replace(STOPPING, problem_since=NOW - 300),
     StartWait("a1", 1, NOW, "pod p2", NOW, "Node")),
    ("an init container works", snapshot(pending(initializing=True)), BEFORE, replace(BEFORE, since=None)),
    ("back-off after a run", snapshot(ended(1, 1)), BEFORE, replace(BEFORE, since=None)),
    ("the lease has run out", job(status=placed(renewed=NOW - 100)), BEFORE, replace(BEFORE, since=None)),
    ("another assignment", snapshot(pending(assignment_id="a2"), id_="a2"), BEFORE, StartWait("a2", 0, NOW)),
    ("it runs", snapshot(running()), BEFORE, None),
    ("its tenant runs beside another container", snapshot(running(phase="Pending", problem=PULL)), BEFORE, None),
    ("it ran, unseen", snapshot(ended(2, 1, finished_at=NOW - 60), pending(3)), BEFORE, StartWait("a1", 2, NOW)),
    ("what ran is gone", snapshot(pending(3)), BEFORE, BEFORE),
    ("suspended", job({**SPEC, "suspend": True}, placed()), BEFORE, None),
    ("withdrawn", job(status={"conditions": [condition("Placed", "False")]}, pods=(pending(),)), BEFORE, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("now", "before", "after"), [case[1:] for case in ADVANCES], ids=[case[0] for case in ADVANCES]
)
def test_the_wait(now: JobSnapshot, before: StartWait | None, after: StartWait | None) -> None:
    assert waited(now, before, NOW, NOW) == after


class Job:
    """One placed job in a world with a clock that the test moves."""

    def __init__(self) -> None:
        self.now = NOW
        self.store = Store(groups, lambda: self.now)
        self.world = World(self.store, IMAGE, START_DEADLINE_SECONDS, GAP_SECONDS, lambda: self.now)
        self._version = 0
        self.status: dict[str, Any] = placed(made=NOW + 9999)
        self.status["assignment"]["lease"]["durationSeconds"] = 100_000
        self.store.put("OfflineJob", job_manifest(status=self.status))
        self.world.heard_listing()

    def pod(self, uid: str = "p1", **status: Any) -> None:
        owner = {"apiVersion": "rowen.dev/v1alpha1", "kind": "OfflineJob", "name": "job", "uid": "u1"}
        self._version += 1
        metadata = {
            "name": "job-1",
            "namespace": "team",
            "uid": uid,
            "labels": {"rowen.dev/job-uid": "u1", "rowen.dev/attempt": "1"},
            "annotations": {"rowen.dev/assignment": "a1"},
            "ownerReferences": [{**owner, "controller": True}],
            "creationTimestamp": rfc3339(NOW - 99_999),
            "resourceVersion": str(self._version),
        }
        spec = {"nodeName": "node-1", "containers": [{"name": "worker"}]}
        self.store.put("Pod", {"metadata": metadata, "spec": spec, "status": status})

    def waits(self, uid: str = "p1", **state: Any) -> None:
        self.pod(uid, phase="Pending", containerStatuses=[{"name": "worker", "state": state}])

    def told(self, after: float, refusal: Refusal | None = None) -> str | None:
        """What is told after so many seconds of listening."""
        while after > GAP_SECONDS:
            self.now, after = self.now + GAP_SECONDS, after - GAP_SECONDS
            self.world.heard_event()
        return self.judged(after, World.heard_event, refusal)

    def judged(self, after: float, sign: Callable[[World], None] | None, refusal: Refusal | None = None) -> str | None:
        """What is told so many seconds later; `sign` is heard in that moment, and nothing in between."""
        self.now += after
        if sign:
            sign(self.world)
        snapshot = self.world.job(JOB, self.now, refusal)
        assert snapshot is not None
        status = decide(snapshot, self.now).status
        assert status is not None
        self.failure = status.get("startFailure") or {}
        return self.failure.get("reason")


RUNS = {"running": {"startedAt": rfc3339(NOW)}}
PULLING = {"reason": "ErrImagePull", "message": "connection reset"}


def test_a_problem_that_is_said_late_has_its_own_time() -> None:
    one = Job()
    one.waits(waiting={"reason": "ContainerCreating"})
    assert one.told(0) is None
    one.waits(waiting=PULLING)
    assert one.told(149) is None
    one.waits(waiting={"reason": "ContainerCreating"})
    assert one.told(10) is None
    one.waits(waiting=PULLING)
    assert one.told(110) is None
    assert one.told(0.001) == "ErrImagePull"


@pytest.mark.parametrize("refusal", [Refusal(0, "the API server did not answer"), QUOTA])
def test_a_pod_that_could_be_made_at_last_has_its_own_time(refusal: Refusal) -> None:
    one = Job()
    assert one.told(0, refusal) is None
    assert one.told(60) is None
    one.waits(waiting={"reason": "ContainerCreating"})
    assert one.told(300) is None
    one.waits(waiting=PULLING)
    assert one.told(0) is None
    one.waits(waiting={"reason": "ContainerCreating"})
    assert one.told(60) is None
    one.waits(waiting={"reason": "ImagePullBackOff"})
    assert one.told(60) is None
    assert one.told(0.001) == "ImagePullBackOff"


OWN = {"template": {"spec": {"containers": [{"name": "worker", "image": "mine"}]}}, "backoffLimit": 20}


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        ({"reason": "ErrImagePull", "message": "registry.test/mine:1: not found"}, "Job"),
        ({"reason": "ErrImagePull", "message": "dial tcp: i/o timeout"}, "Node"),
        ({"reason": "ImagePullBackOff", "message": 'Back-off pulling image "mine"'}, "Node"),
    ],
)
def test_a_kubelet_that_does_not_repeat_why_has_said_it_before(before: dict[str, str], cause: str) -> None:
    one = Job()
    one.store.put("OfflineJob", job_manifest(OWN, one.status, resourceVersion="2"))
    one.waits(waiting={"reason": "ErrImagePull", "message": ""})
    assert one.told(0) is None
    one.waits(waiting=before)
    assert one.told(1) is None
    one.waits(waiting={"reason": "ContainerCreating"})
    assert one.told(1) is None
    one.waits(waiting={"reason": "ImagePullBackOff", "message": 'Back-off pulling image "mine"'})
    assert one.told(119) == "ImagePullBackOff"
    assert one.failure["cause"] == cause


def test_what_is_said_last_holds() -> None:
    one = Job()
    one.store.put("OfflineJob", job_manifest(OWN, one.status, resourceVersion="2"))
    one.waits(waiting={"reason": "ErrImagePull", "message": "not found"})
    assert one.told(0) is None
    one.waits(waiting={"reason": "ErrImagePull", "message": "no such host"})
    assert one.told(121) == "ErrImagePull"
    assert one.failure["cause"] == "Node"


def test_another_pods_words_are_not_this_ones() -> None:
    one = Job()
    one.store.put("OfflineJob", job_manifest(OWN, one.status, resourceVersion="2"))
    one.waits(waiting={"reason": "ErrImagePull", "message": "not found"})
    assert one.told(0) is None
    one.waits(uid="p2", waiting={"reason": "ImagePullBackOff", "message": 'Back-off pulling image "mine"'})
    assert one.told(1) is None
    assert one.told(121) == "ImagePullBackOff"
    assert one.failure["cause"] == "Node"


HOUR = 3600.0
TROUBLE = [({"reason": "ContainerCreating"}, 600), (PULLING, 120)]


def twenty_seconds_before(state: dict[str, str], seconds: float) -> Job:
    """A job in trouble whose start fails after so many seconds, 20 s before that."""
    one = Job()
    one.waits(waiting=state)
    assert one.told(0) is None
    assert one.told(seconds - 20) is None
    return one


def assert_twenty_seconds_are_left(one: Job) -> None:
    assert one.told(20) is None
    assert one.told(0.001) is not None


@pytest.mark.parametrize(("state", "seconds"), TROUBLE)
def test_an_outage_is_no_time(state: dict[str, str], seconds: float) -> None:
    one = twenty_seconds_before(state, seconds)
    assert one.judged(10, World.heard_nothing) is None
    assert one.judged(150, None) is None
    assert one.judged(1, World.heard_nothing) is None
    assert one.judged(1, World.heard_event) is None, "events alone do not tell what was missed"
    assert one.judged(1, World.heard_listing) is None
    assert_twenty_seconds_are_left(one)


def test_what_a_listing_finds_after_an_outage_holds() -> None:
    one = Job()
    one.waits(waiting=PULLING)
    assert one.told(119) is None
    assert one.judged(150, World.heard_nothing) is None
    one.pod(phase="Running", containerStatuses=[{"name": "worker", "state": {"running": {"startedAt": rfc3339(NOW)}}}])
    assert one.judged(1, World.heard_listing) is None
    assert one.told(HOUR) is None


@pytest.mark.parametrize("sign", [World.heard_event, World.heard_listing])
@pytest.mark.parametrize("jump", [GAP_SECONDS + 0.001, HOUR, -0.001, -HOUR], ids=str)
@pytest.mark.parametrize(("state", "seconds"), TROUBLE)
def test_a_gap_or_a_clock_that_jumps_is_no_time(
    state: dict[str, str], seconds: float, jump: float, sign: Callable[[World], None]
) -> None:
    one = twenty_seconds_before(state, seconds)
    assert one.judged(jump, None) is None
    assert one.judged(0, sign) is None
    assert_twenty_seconds_are_left(one)


def test_what_comes_after_the_last_sign_does_not_count_yet() -> None:
    one = Job()
    one.waits(waiting=PULLING)
    assert one.told(0) is None
    assert one.told(100) is None
    assert one.judged(GAP_SECONDS, None) is None
    assert one.judged(0, World.heard_event) == "ErrImagePull"


def test_silence_is_reckoned_by_the_operators_clock_alone() -> None:
    """The assignment is of tomorrow and the pod of yesterday."""
    one = Job()
    one.waits(waiting={"reason": "ContainerCreating"})
    assert one.told(0) is None
    assert one.told(600) is None
    assert one.told(0.001) == "StartDeadlineExceeded"


def test_a_refusal_stands_from_one_try_to_the_next() -> None:
    one, quota = Job(), Refusal(403, "exceeded quota")
    assert one.told(0, quota) is None
    for _ in range(4):
        assert one.told(30) is None
        assert one.told(0, quota) is None
    assert one.told(0.001, quota) == "PodForbidden"


def test_a_tenant_that_runs_ends_the_wait() -> None:
    one = Job()
    one.waits(waiting=PULLING)
    assert one.told(0) is None
    one.waits(running={"startedAt": rfc3339(NOW)})
    assert one.told(9999) is None
    one.waits(waiting=PULLING)
    assert one.told(120) is None
    assert one.told(120) is None
    assert one.told(0.001) == "ErrImagePull"


@pytest.mark.parametrize(
    ("sidecar", "seconds", "reason"),
    [(PULLING, 120, "ErrImagePull"), ({"reason": "ContainerCreating"}, 600, "StartDeadlineExceeded")],
)
def test_a_tenant_that_has_ended_beside_a_container_that_cannot_start_holds_its_slot_no_longer(
    sidecar: dict[str, str], seconds: float, reason: str
) -> None:
    one, beside = Job(), {"name": "side", "state": {"waiting": sidecar}}
    one.pod(phase="Pending", containerStatuses=[{"name": "worker", "state": RUNS}, beside])
    assert one.told(9999) is None
    over = {"terminated": {"exitCode": 0, "startedAt": rfc3339(NOW), "finishedAt": rfc3339(NOW + 9)}}
    one.pod(phase="Pending", containerStatuses=[{"name": "worker", "state": over}, beside])
    assert one.told(0) is None
    assert one.told(seconds) is None
    assert one.told(0.001) == reason


def test_a_tenant_that_has_ended_beside_one_that_works_on_is_waited_for() -> None:
    one = Job()
    over = {"terminated": {"exitCode": 0, "startedAt": rfc3339(NOW), "finishedAt": rfc3339(NOW + 9)}}
    beside = {"name": "side", "state": RUNS}
    one.pod(phase="Running", containerStatuses=[{"name": "worker", "state": over}, beside])
    assert one.told(0) is None
    assert one.told(9999) is None


def test_a_successor_of_the_same_name_waits_by_itself() -> None:
    one = Job()
    assert one.told(0, Refusal(403, "exceeded quota")) is None
    one.store.put("OfflineJob", job_manifest(status=one.status, uid="u2", resourceVersion="2"))
    assert one.told(121, Refusal(403, "exceeded quota")) is None


def test_the_wait_of_a_job_that_is_gone_is_dropped() -> None:
    one = Job()
    assert one.told(0, Refusal(403, "exceeded quota")) is None
    one.world.forget()
    assert one.told(120, Refusal(403, "exceeded quota")) is None, "it is still there"
    one.store.remove("OfflineJob", job_manifest(resourceVersion="1"))
    one.world.forget()
    one.store.put("OfflineJob", job_manifest(status=one.status, resourceVersion="2"))
    assert one.told(1, Refusal(403, "exceeded quota")) is None


def test_what_was_told_is_told_again_once_the_tenant_has_stopped_running() -> None:
    told = {"assignment": "a1", "reason": "ErrImagePull", "message": "m", "cause": "Job"}
    status = placed(startFailure=told, failures=1, countedAttempt=1, attempts=1)
    runs = decide(job(status=status, pods=(running(),)), NOW).status
    assert runs is not None
    assert ("startFailure" in runs, runs["failures"]) == (False, 1)
    stored = {**status, **runs, "conditions": [*PLACED, *runs["conditions"]]}
    wait = StartWait("a1", 1, NOW - 500, "pod p2", NOW - 121)
    again = decide(
        job(status=stored, pods=(ended(1, 1, finished_at=NOW - 60), pending(2, problem=PULL)), wait=wait), NOW
    )
    assert again.status is not None
    assert again.status["startFailure"]["reason"] == "ErrImagePull"
