"""A pod that cannot be made is told of, whatever the API server says or does not say."""

from collections.abc import Mapping
from typing import Any

import pytest
from operator_builders import GAP_SECONDS, IMAGE, NOW, START_DEADLINE_SECONDS, job_manifest, placed
from prometheus_client import CollectorRegistry

from rowen.kube.errors import KubeError, RefusedError, UnreachableError
from rowen.operator.decision import Note
from rowen.operator.jobs.policy import REFUSED_SECONDS
from rowen.operator.metrics import Metrics
from rowen.operator.reconciler import Reconciler
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.snapshots import World, groups
from rowen.operator.world.store import Key, Store

JOB = Key("OfflineJob", "team", "job")
Manifest = Mapping[str, Any]


class Refusing(Cluster):
    """A cluster with one placed job, in which pods cannot be made."""

    def __init__(self, failure: KubeError | None) -> None:
        self.failure = failure
        self.carried_out = False
        self.pods: dict[str, dict[str, Any]] = {}
        self.notes: list[Note] = []
        self.away = False

    async def create_pod(self, manifest: Manifest) -> dict[str, Any]:
        name = manifest["metadata"]["name"]
        if self.failure is None or self.carried_out:
            metadata = {**manifest["metadata"], "uid": f"uid-{name}", "resourceVersion": "5"}
            self.pods.setdefault(name, {**manifest, "metadata": metadata, "status": {"phase": "Pending"}})
        if self.failure:
            raise self.failure
        return self.pods[name]

    async def write_status(self, owner: Manifest, status: Mapping[str, Any]) -> dict[str, Any]:
        if self.away:
            raise UnreachableError("away")
        others = [entry for entry in owner["status"]["conditions"] if entry["type"] in ("Admitted", "Placed")]
        kept = {"assignment": owner["status"]["assignment"]}
        metadata = {**owner["metadata"], "resourceVersion": str(int(owner["metadata"]["resourceVersion"]) + 1)}
        new = {**kept, **status, "conditions": others + status["conditions"]}
        return {**owner, "metadata": metadata, "status": new}

    async def post(self, owner: Manifest, note: Note, now: float) -> None:
        self.notes.append(note)


class Play:
    """The reconciler, with a clock that the test moves."""

    def __init__(self, failure: KubeError | None) -> None:
        self.now = NOW
        self.cluster = Refusing(failure)
        self.store = Store(groups, lambda: self.now)
        status = placed()
        status["assignment"]["lease"]["durationSeconds"] = 100_000
        self.store.put("OfflineJob", job_manifest(status=status))

        def clock() -> float:
            return self.now

        world = World(self.store, IMAGE, START_DEADLINE_SECONDS, GAP_SECONDS, clock)
        world.heard_listing()
        self.world = world
        self.reconciler = Reconciler(self.store, world, self.cluster, Metrics(CollectorRegistry()), clock)

    async def reconcile(self, after: float = 0.0) -> float | None:
        self.now += after
        self.world.heard_event()
        return await self.reconciler.reconcile(JOB)

    @property
    def status(self) -> dict[str, Any]:
        job = self.store.get(JOB)
        assert job is not None
        return dict(job["status"])

    @property
    def running(self) -> tuple[str, str]:
        entry = next(entry for entry in self.status["conditions"] if entry["type"] == "Running")
        return entry["reason"], entry["message"]


FAILURES = [
    (UnreachableError("no reply in time"), "PodRefused", "no reply in time"),
    (UnreachableError("connection refused"), "PodRefused", "connection refused"),
    (RefusedError(500, "InternalError", "etcd said no"), "PodRefused", "etcd said no"),
    (RefusedError(503, "", "apiserver is shutting down"), "PodRefused", "shutting down"),
    (RefusedError(504, "Timeout", "request did not complete"), "PodRefused", "did not complete"),
    (RefusedError(429, "TooManyRequests", "too many requests"), "PodRefused", "too many"),
    (RefusedError(403, "Forbidden", "exceeded quota"), "PodForbidden", "exceeded quota"),
]  # fmt: skip


@pytest.mark.parametrize(("failure", "reason", "words"), FAILURES, ids=lambda value: str(value)[:30])
async def test_it_is_told_at_once_and_fails_the_start_in_time(failure: KubeError, reason: str, words: str) -> None:
    play = Play(failure)
    assert await play.reconcile() == REFUSED_SECONDS
    assert play.running[0] == reason
    assert words in play.running[1]
    assert [(note.type, note.reason) for note in play.cluster.notes] == [("Warning", reason)]
    for _ in range(4):
        later = await play.reconcile(30)
        assert later is not None
        assert 0 < later <= REFUSED_SECONDS
        assert "startFailure" not in play.status
    await play.reconcile(0.1)
    told = play.status["startFailure"]
    assert (told["reason"], told["cause"], play.status["failures"], play.status["attempts"]) == (
        reason,
        "Cluster",
        0,
        0,
    )
    assert [note.reason for note in play.cluster.notes] == [reason, "NotStarted"]


async def test_a_pod_that_was_made_without_an_answer_is_found_and_not_doubled() -> None:
    play = Play(UnreachableError("slow"))
    play.cluster.carried_out = True
    await play.reconcile()
    assert play.running[0] == "PodRefused"
    play.cluster.failure = None
    await play.reconcile(30)
    await play.reconcile()
    assert play.running == ("Starting", "pod job-1 is starting")
    assert list(play.cluster.pods) == ["job-1"]
    assert (play.status["attempts"], play.status["failures"]) == (1, 0)
    assert "startFailure" not in play.status


async def test_while_the_api_server_is_away_altogether_the_queue_tries_again() -> None:
    play = Play(UnreachableError("connection refused"))
    play.cluster.away = True
    with pytest.raises(UnreachableError, match="away"):
        await play.reconcile()


async def test_a_service_whose_child_got_no_answer_is_no_refusal() -> None:
    """Nothing is held meanwhile, and the queue comes back sooner."""

    class Away(Refusing):
        async def apply(self, manifest: Manifest) -> dict[str, Any]:
            raise UnreachableError("connection refused")

    play = Play(None)
    play.reconciler._cluster = Away(None)
    head = {"apiVersion": "rowen.dev/v1alpha1", "kind": "OnlineService"}
    slo = {"ttft": {"target": "500ms"}, "tpot": {"target": "50ms"}}
    spec = {"engine": {"model": {"claimName": "m", "path": "p"}}, "slo": slo}
    metadata = {"name": "chat", "namespace": "team", "uid": "s1", "generation": 1, "resourceVersion": "1"}
    play.store.put("OnlineService", {**head, "metadata": metadata, "spec": spec})
    with pytest.raises(UnreachableError):
        await play.reconciler.reconcile(Key("OnlineService", "team", "chat"))
