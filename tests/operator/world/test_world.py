"""Reports are aged by the operator's clock, whatever the nodes' clocks say."""

from typing import Any

import pytest
from operator_builders import (
    GAP_SECONDS,
    IMAGE,
    NAMESPACE,
    NODE,
    NOW,
    SLO,
    START_DEADLINE_SECONDS,
    device,
    job_manifest,
    online,
    placed,
    report_manifest,
)

from rowen.crds.names import HEARTBEAT_SECONDS, NODE_LEASE_SECONDS
from rowen.kube.heartbeat import Beat
from rowen.operator.jobs.policy import decide
from rowen.operator.world.reports import Report
from rowen.operator.world.snapshots import World, groups
from rowen.operator.world.store import Key, Store

HOUR = 3600.0
JOB = Key("OfflineJob", "team", "job")
CHAT = Key("OnlineService", NAMESPACE, "chat")


class Reported:
    """A world into which one node reports, with a clock of its own that is `ahead` of the operator's."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.now = NOW
        self.ahead = ahead
        self.store = Store(groups, lambda: self.now)
        self.world = World(self.store, IMAGE, START_DEADLINE_SECONDS, GAP_SECONDS, lambda: self.now)
        self._version = 0
        self.stored: dict[str, Any] = {}

    def put(self, kind: str, manifest: dict[str, Any]) -> None:
        self._version += 1
        metadata = {**manifest["metadata"], "resourceVersion": str(self._version)}
        self.stored = {**manifest, "metadata": metadata}
        self.store.put(kind, self.stored)

    def report(self, stamp: float | None = None, **status: Any) -> Report:
        """The node reports, at `stamp` by its own clock; the operator reads it."""
        manifest = report_manifest(time=self.now + self.ahead if stamp is None else stamp)
        manifest["status"] |= status
        self.put("NodeHarvest", manifest)
        return self.read()

    def beat(self, stamp: float | None = None) -> Report:
        """The node renews its Lease, likewise."""
        self.world.heard_beat(Beat(NODE, self.now + self.ahead if stamp is None else stamp))
        return self.read()

    def read(self) -> Report:
        report = self.world.report(NODE)
        assert report is not None
        return report


@pytest.mark.parametrize("ahead", [HOUR, 0.0, -HOUR])
def test_a_node_is_heard_for_so_long_after_each_report(ahead: float) -> None:
    node = Reported(ahead)
    node.report()
    node.now += 5
    assert node.report().age(node.now) == 0
    node.now += NODE_LEASE_SECONDS
    assert node.read().fresh(node.now)
    node.now += 1
    assert not node.read().fresh(node.now)


def test_what_was_there_at_first_is_as_old_as_it_says_and_never_from_the_future() -> None:
    assert Reported(-HOUR).report().age(NOW) == HOUR
    assert Reported(HOUR).report().age(NOW) == 0


def test_only_a_new_report_counts_as_one() -> None:
    node = Reported()
    node.report()
    node.now += 60
    assert node.report(stamp=NOW, backend="nvidia").age(node.now) == 60
    assert node.report(stamp=NOW - HOUR).age(node.now) == 0, "a clock that was set back is a sign of life too"


def test_a_node_without_a_report_is_not_there() -> None:
    node = Reported()
    node.report()
    node.put("NodeHarvest", {**report_manifest(), "status": {"backend": "cpu", "devices": []}})
    assert node.read().time is None
    node.now += 7
    assert node.report(stamp=NOW).age(node.now) == 0


def test_a_report_that_went_is_forgotten() -> None:
    node = Reported()
    node.report()
    node.store.remove("NodeHarvest", node.stored)
    assert node.world.report(NODE) is None
    node.now += 60
    assert node.report(stamp=NOW).age(node.now) == 60


def _running(node: Reported) -> str:
    job = node.world.job(JOB, node.now)
    assert job is not None
    status = decide(job, node.now).status
    assert status is not None
    return next(entry["reason"] for entry in status["conditions"] if entry["type"] == "Running")


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_a_lease_follows_the_reports_whatever_the_nodes_clock(ahead: float) -> None:
    node = Reported(ahead)
    node.put("OfflineJob", job_manifest(status=placed(renewed=NOW - HOUR)))
    node.report()
    node.now += 5
    node.report()
    assert _running(node) == "Starting"
    node.now += NODE_LEASE_SECONDS + 1
    assert _running(node) == "LeaseExpired"


def served() -> Reported:
    """The world of a service."""
    node = Reported()
    node.put("OnlineService", {
        "metadata": {"name": "chat", "namespace": NAMESPACE, "uid": "s1"},
        "spec": {"workloadRef": {"kind": "Deployment", "name": "chat"}, "slo": SLO},
    })  # fmt: skip
    return node


def service(world: World) -> list[str]:
    """The devices that the service holds."""
    found = world.service(CHAT, NOW)
    assert found is not None
    return [held.id for held in found.devices]


def test_a_service_has_the_devices_that_reports_name_it_for() -> None:
    node = served()
    chat, other = device("chat0", online=online()), device("other0", online=online("other"))
    elsewhere = device("there0", online=online(pod="elsewhere/chat-abc"))
    node.put("NodeHarvest", report_manifest(chat, other, elsewhere, device("free"), node="a"))
    node.put("NodeHarvest", report_manifest(device("chat1", online=online()), node="b"))
    node.put("NodeHarvest", report_manifest(device("other1", online=online("other")), node="c"))
    node.put("NodeHarvest", report_manifest(device("chat2", online=online()), node="d", time=NOW - HOUR))
    assert service(node.world) == ["chat0", "chat1"]
    node.put("NodeHarvest", report_manifest(device("other2", online=online("other")), node="b"))
    node.put("NodeHarvest", report_manifest(device("chat3", online=online()), node="c"))
    assert service(node.world) == ["chat0", "chat3"]


def test_an_engine_has_the_devices_of_its_own_pods_on_their_nodes() -> None:
    node = Reported()
    claim = {"claimName": "models", "path": "llama"}
    node.put("OnlineService", {
        "metadata": {"name": "chat", "namespace": NAMESPACE, "uid": "s1"},
        "spec": {"engine": {"model": claim}, "slo": SLO},
    })  # fmt: skip
    labels = {"rowen.dev/service": "chat"}
    node.put("Pod", {
        "metadata": {"name": "chat-abc", "namespace": NAMESPACE, "uid": "p1", "labels": labels},
        "spec": {"nodeName": "a", "containers": [{"name": "engine"}]},
    })  # fmt: skip
    made_up = online(pod=f"{NAMESPACE}/chat-xyz")
    node.put("NodeHarvest", report_manifest(device("own", online=online()), node="a"))
    node.put("NodeHarvest", report_manifest(device("elsewhere", online=online()), node="b"))
    node.put("NodeHarvest", report_manifest(device("unknown", online=made_up), node="c"))
    assert service(node.world) == ["own"]


def test_a_service_asks_no_node_that_has_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    node = served()
    for number in range(50):
        held = online("chat" if number == 7 else f"other{number}")
        node.put("NodeHarvest", report_manifest(device(f"g{number}", online=held), node=f"n{number}"))
    asked: list[str] = []
    report = node.world.report
    monkeypatch.setattr(node.world, "report", lambda name: [asked.append(name), report(name)][1])
    assert service(node.world) == ["g7"]
    assert asked == ["n7"]


@pytest.mark.parametrize("ahead", [HOUR, 0.0, -HOUR])
def test_a_node_is_heard_by_its_heartbeats_while_its_report_stays(ahead: float) -> None:
    node = Reported(ahead)
    node.report()
    node.beat()
    for _ in range(20):
        node.now += 5
        assert node.beat().age(node.now) == 0
    node.now += NODE_LEASE_SECONDS
    assert node.read().fresh(node.now)
    node.now += 1
    assert not node.read().fresh(node.now)


def test_only_a_heartbeat_that_changes_is_one() -> None:
    node = Reported()
    node.report()
    node.beat()
    node.now += 60
    assert node.beat(stamp=NOW).age(node.now) == 60
    assert node.beat(stamp=NOW - HOUR).age(node.now) == 0


def test_an_older_agent_in_the_place_of_one_that_sent_heartbeats_is_heard_by_its_reports() -> None:
    node = Reported()
    node.beat()
    node.now += 60
    node.report(stamp=NOW)
    assert node.report().age(node.now) == 0


def test_a_node_whose_report_is_gone_is_there_while_it_sends_heartbeats() -> None:
    node = Reported()
    node.report()
    node.beat()
    node.store.remove("NodeHarvest", node.stored)
    node.now += 5
    assert node.beat().fresh(node.now)
    assert node.read().devices == ()


def test_a_node_that_is_long_silent_is_forgotten() -> None:
    node = Reported()
    node.beat()
    node.now += 600
    node.world.forget()
    assert node.read().heard == NOW
    node.now += 1
    node.world.forget()
    assert node.world.report(NODE) is None


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_a_lease_follows_the_heartbeats_and_an_expired_one_is_looked_at_again(ahead: float) -> None:
    node = Reported(ahead)
    node.put("OfflineJob", job_manifest(status=placed(renewed=NOW - HOUR)))
    node.report()
    node.beat()
    node.now += NODE_LEASE_SECONDS + 10
    node.beat()
    assert _running(node) == "Starting"
    node.now += NODE_LEASE_SECONDS + 1
    assert _running(node) == "LeaseExpired"
    job = node.world.job(JOB, node.now)
    assert job is not None
    assert decide(job, node.now).requeue_seconds == HEARTBEAT_SECONDS
    node.beat()
    assert _running(node) == "Starting"
