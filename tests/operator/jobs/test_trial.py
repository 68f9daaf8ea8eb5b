"""The dry run of a new job's pod: when it is asked for, what its answer does, and that a restart asks again."""

from collections.abc import Mapping
from typing import Any

import pytest
from operator_builders import (
    FINE_TUNE,
    GAP_SECONDS,
    IMAGE,
    NOW,
    START_DEADLINE_SECONDS,
    TEMPLATE,
    job,
    job_manifest,
    placed,
    running,
)
from prometheus_client import CollectorRegistry

from rowen.kube.errors import KubeError, RefusedError, UnreachableError
from rowen.kube.timestamps import rfc3339
from rowen.operator.decision import Note, Refusal, Trial
from rowen.operator.jobs.policy import FIRST_WORD_SECONDS, decide
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.metrics import Metrics
from rowen.operator.reconciler import Reconciler
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.snapshots import World, groups
from rowen.operator.world.store import Key, Store

OVERLAID = {"fineTune": FINE_TUNE, "podTemplate": {"metadata": {"labels": {"a": "b"}}}}
KEY = Key("OfflineJob", "team", "job")
INVALID = RefusedError(422, "Invalid", 'Pod "job-1" is invalid: metadata.labels: Invalid value: "b"')


@pytest.mark.parametrize("spec", [{"template": TEMPLATE}, OVERLAID])
@pytest.mark.parametrize("status", [{}, placed()])
def test_a_new_job_with_something_of_its_users_is_tried_first(spec: dict[str, Any], status: dict[str, Any]) -> None:
    decision = decide(job(spec, status, trial=None), NOW)
    assert decision.trial is not None
    pod = decision.trial
    assert (pod["metadata"]["name"], pod["metadata"]["annotations"]) == ("job-1", {})
    assert "affinity" not in pod["spec"]
    assert (decision.children, decision.status, decision.removals) == ((), None, ())


@pytest.mark.parametrize(
    "snapshot",
    [
        job(None, placed(), trial=None),
        job(OVERLAID, placed(observedGeneration=1), trial=None),
        job(OVERLAID, placed(), pods=(running(),), trial=None),
        job({**OVERLAID, "managedBy": "example.com/other"}, trial=None),
        job(OVERLAID, placed(), trial=Trial(None)),
        job({"template": {"spec": {"containers": ["no container"]}}}, trial=None),
    ],
    ids=["nothing of its user's", "known", "with a pod", "managed by another", "tried", "wrong by Rowen's own rules"],
)
def test_any_other_is_not(snapshot: JobSnapshot) -> None:
    assert decide(snapshot, NOW).trial is None


def test_what_may_pass_is_a_note_and_the_job_goes_on() -> None:
    trial = Trial(Refusal(403, "no PriorityClass with name low was found"))
    decision = decide(job(OVERLAID, placed(), trial=trial), NOW)
    assert [child["metadata"]["name"] for child in decision.children] == ["job-1"]
    assert decision.notes[-1] == Note(
        "Warning", "PodForbidden", "its pod would be refused now: no PriorityClass with name low was found"
    )


class Trying(Cluster):
    """An API server that answers dry runs, and takes every status."""

    def __init__(self, failure: KubeError | None) -> None:
        self.failure = failure
        self.tried: list[str] = []
        self.posted: list[str] = []

    async def try_pod(self, manifest: Mapping[str, Any]) -> None:
        self.tried.append(manifest["metadata"]["name"])
        if self.failure:
            raise self.failure

    async def write_status(self, owner: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
        version = str(int(owner["metadata"]["resourceVersion"]) + 1)
        return {**owner, "metadata": {**owner["metadata"], "resourceVersion": version}, "status": status}

    async def post(self, owner: Mapping[str, Any], note: Note, now: float) -> None:
        self.posted.append(note.message)


class Play:
    """A new job, and an operator that may be exchanged."""

    def __init__(self, failure: KubeError | None) -> None:
        self.now = NOW
        self.cluster = Trying(failure)
        self.store = Store(groups, lambda: self.now)
        self.store.put("OfflineJob", job_manifest(OVERLAID, creationTimestamp=rfc3339(NOW)))
        self.restart()

    def restart(self) -> None:
        world = World(self.store, IMAGE, START_DEADLINE_SECONDS, GAP_SECONDS, lambda: self.now)
        self.reconciler = Reconciler(self.store, world, self.cluster, Metrics(CollectorRegistry()), lambda: self.now)

    async def reconcile(self, after: float = 0.0) -> tuple[str, str]:
        """Reason and message of Finished; both empty while there is no status."""
        self.now += after
        await self.reconciler.reconcile(KEY)
        stored = self.store.get(KEY) or {}
        found = [entry for entry in stored["status"].get("conditions", []) if entry["type"] == "Finished"]
        return (found[0]["reason"], found[0]["message"]) if found else ("", "")


async def test_an_invalid_one_ends_its_job_at_once() -> None:
    play = Play(INVALID)
    assert await play.reconcile() == (
        "InvalidTemplate",
        'Pod "job-1" is invalid: spec.podTemplate.metadata.labels: Invalid value: "b"',
    )
    await play.reconcile(60)
    assert play.cluster.tried == ["job-1"]


@pytest.mark.parametrize(
    "failure",
    [
        None,
        RefusedError(403, "Forbidden", "exceeded quota"),
        RefusedError(409, "AlreadyExists", "exists"),
        RefusedError(429, "TooManyRequests", "busy"),
        RefusedError(500, "InternalError", "etcd"),
        RefusedError(400, "BadRequest", 'admission webhook "a.b" does not support dry run'),
        RefusedError(422, "Invalid", "ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no"),
        UnreachableError("no answer"),
    ],
    ids=str,
)
async def test_any_other_answer_ends_none_and_it_is_tried_once(failure: KubeError | None) -> None:
    play = Play(failure)
    assert await play.reconcile() == ("", "")
    await play.reconcile(1)
    assert play.cluster.tried == ["job-1"]
    assert (await play.reconcile(FIRST_WORD_SECONDS))[0] == "Unfinished"
    await play.reconcile(60)
    assert play.cluster.tried == ["job-1"]


@pytest.mark.parametrize("failure", [RefusedError(400, "BadRequest", 'admission webhook "a" does not support dry run')])
async def test_that_it_was_not_tried_is_no_word_against_a_pod(failure: KubeError) -> None:
    play = Play(failure)
    await play.reconcile()
    await play.reconcile(FIRST_WORD_SECONDS)
    assert play.cluster.posted == []


AFFINITIES: list[tuple[Any, str]] = [
    ("x", "podTemplate.spec.affinity.nodeAffinity"),
    ({"requiredDuringSchedulingIgnoredDuringExecution": "x"}, "IgnoredDuringExecution"),
    ({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": ["x"]}}, "nodeSelectorTerms[0]"),
    ({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": 1}]}}, "matchFields"),
]


@pytest.mark.parametrize(("affinity", "field"), AFFINITIES)
def test_an_affinity_that_nobody_could_pin_ends_the_job_whatever_the_trial_said(affinity: Any, field: str) -> None:
    spec = {"fineTune": FINE_TUNE, "podTemplate": {"spec": {"affinity": {"nodeAffinity": affinity}}}}
    decision = decide(job(spec, placed(), trial=Trial(None)), NOW)
    assert decision.status is not None
    found = next(entry for entry in decision.status["conditions"] if entry["type"] == "Finished")
    assert found["reason"] == "InvalidTemplate"
    assert field in found["message"]


async def test_an_operator_that_was_ended_before_its_first_word_tries_again() -> None:
    play = Play(None)
    await play.reconcile()
    play.cluster.failure = INVALID
    play.restart()
    assert (await play.reconcile(1))[0] == "InvalidTemplate"
    assert play.cluster.tried == ["job-1", "job-1"]
