"""Which reports wake whom: a service's are looked at together, a job's at once."""

from collections.abc import Callable

import pytest
from operator_beats import NoBeats
from operator_builders import NAMESPACE, device, online, report_manifest, tenant
from prometheus_client import CollectorRegistry

from rowen.kube.heartbeat import Beat
from rowen.kube.informer import Informer
from rowen.operator.app import SERVICE_SECONDS, Operator
from rowen.operator.metrics import Metrics
from rowen.operator.settings import Settings
from rowen.operator.workqueue import WorkQueue
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.store import Key

CHAT, JOB = Key("OnlineService", NAMESPACE, "chat"), Key("OfflineJob", NAMESPACE, "job")


class Silent(Cluster):
    """A cluster that is not asked."""

    def __init__(self) -> None:
        pass

    def beats(self, namespace: str, heard: Callable[[Beat], None]) -> Informer[Beat]:
        return NoBeats()


def test_a_services_reports_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    now: list[Key] = []
    later: list[tuple[Key, float]] = []
    monkeypatch.setattr(WorkQueue, "add", lambda _, key: now.append(key))
    monkeypatch.setattr(WorkQueue, "add_within", lambda _, key, seconds: later.append((key, seconds)))
    operator = Operator(Settings(runtime_image="i"), Silent(), Metrics(CollectorRegistry()), lambda: 1000.0)
    service = {"metadata": {"namespace": NAMESPACE, "name": "chat", "uid": "s1", "resourceVersion": "7"}, "spec": {}}
    operator.on_event("OnlineService", service, False)
    assert (now, later) == ([CHAT], []), "its own changes are looked at once"
    held = device(online=online(), tenants=[tenant()])
    operator.on_event("NodeHarvest", report_manifest(held), False)
    assert (now, later) == ([CHAT, JOB], [(CHAT, SERVICE_SECONDS)])
