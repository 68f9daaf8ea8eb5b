"""The traffic before there are jobs, with the cluster left out."""

import contextlib
from pathlib import Path

from demo_runs import world
from outcomes import outcome
from rich.console import Console

from rowen.demo import run as module
from rowen.demo.mode import Mode
from rowen.demo.run import Settings
from rowen.demo.traffic.excerpt import load
from rowen.demo.traffic.scaling import DEMO, scale
from rowen.demo.verdict.objective import Objective, Target


class Observed:
    def __init__(self, cluster, service, jobs):
        assert (service, jobs) == ("chat", ())
        self.world = world()

    @contextlib.asynccontextmanager
    async def watching(self):
        yield self.world


@contextlib.asynccontextmanager
async def endpoint(cluster, service, console):
    yield lambda: "http://engine"


class Elsewhere:
    """A cluster that is not on this machine."""

    host, namespace = "https://192.0.2.1", "default"


async def test_the_same_requests_are_sent_to_an_engine_that_is_warm(monkeypatch, tmp_path):
    sent = []

    async def replay(requests, *, endpoint, model, progress):
        assert (endpoint(), model) == ("http://engine", "chat")
        progress.total = len(requests)
        sent.append(requests)
        return [outcome(request.arrival) for request in requests]

    async def objective(cluster):
        return Objective(Target(99, 0.5), Target(99, 0.06))

    monkeypatch.setattr(module, "Observer", Observed)
    monkeypatch.setattr(module, "service_endpoint", endpoint)
    monkeypatch.setattr(module, "replay", replay)
    monkeypatch.setattr(module, "_objective", objective)
    console = Console(width=200, record=True)
    settings = Settings(Mode.CO_SERVE, Path(), tmp_path, None, 40.0, 60.0)
    traffic = scale(load(), DEMO, seconds=40.0)
    found = await module._replay_alone(Elsewhere(), settings, traffic, console)
    warm_up, requests = sent
    assert requests == traffic
    assert [one.arrival for one in found] == [request.arrival for request in requests]
    assert max(request.arrival for request in requests) > 20.0
    assert warm_up == [request for request in requests if request.arrival < 20.0]
    assert warm_up
    assert "The same traffic before there are jobs" in console.export_text()
