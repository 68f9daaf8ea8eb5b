import io
import re

import pytest
from outcomes import outcome
from pools import owners
from rich.console import Console

from rowen.crds.harvest.co_serving import CoServing
from rowen.crds.harvest.device_detail import DeviceDetail
from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.demo.show.view import PlainView, ScreenView, make_view, owners_bar, plain_line, screen
from rowen.demo.show.world import DeviceRecord, World
from rowen.demo.traffic.replay import Progress
from rowen.demo.verdict.objective import Objective, Target

OBJECTIVE = Objective(ttft=Target(95, 0.5), tpot=Target(99, 0.06))


def device():
    pod = "default/p"
    return DeviceDetail.from_wire({
        "id": "cpu1", "type": "cpu", "memoryBytes": 1, "harvestable": True, "gateOpen": True, "idleFraction": 0.6,
        "harvestedFraction": 0.55, "preemptions": 7, "perRequestMax": 1, "inFlight": 0,
        "online": {"pod": pod, "service": "chat", "attached": True},
        "tenants": [{"pod": pod, "job": "support-lora", "attached": True}],
    })  # fmt: skip


@pytest.fixture
def world():
    held = {"id": "a", "node": "node", "devices": ["cpu1"], "predictedFraction": 0.5, "time": "2026-01-01T00:00:00Z"}
    status = {
        "state": "Running",
        "progress": {"completed": 30, "total": 120, "unit": "steps"},
        "assignment": {**held, "mode": "CoServe", "lease": {"durationSeconds": 30}},
    }
    return World(
        devices={("node", "cpu1"): DeviceRecord(device())}, jobs={"support-lora": OfflineJobStatus.from_wire(status)}
    )


@pytest.fixture
def replay():
    return Progress(started=1000.0, total=4, sent=3, outcomes=[outcome(1000.0, ttft=0.08), outcome(1001.0, ttft=0.7)])


def test_a_line_says_it_all(world, replay):
    line = plain_line(world, replay, 1010.0)
    for part in ("requests 2/4", "1 in flight", "node/cpu1: offline: support-lora", "harvested 55%", "7 preemptions"):
        assert part in line
    assert "support-lora: Running 30/120" in line


def test_before_the_replay_there_is_a_line_too(world):
    assert "TTFT p50/p99 -/-" in plain_line(world, Progress(), 1010.0)


def test_the_screen_is_drawn(world, replay):
    world.problem = "timeout"
    console = Console(record=True, width=140, file=io.StringIO())
    console.print(screen(world, replay, OBJECTIVE, 1010.0))
    text = console.export_text()
    for part in (
        "TTFT at p95",
        "p95 ≤ 500 ms",
        "p99 ≤ 60 ms",
        "offline: support-lora",
        "30/120 steps",
        "CoServe",
        "not read",
    ):
        assert part in text


def drawn(world, replay, objective):
    """The screen with its colours, as a terminal gets it."""
    console = Console(width=140, file=io.StringIO(), color_system="standard", force_terminal=True)
    console.print(screen(world, replay, objective, 1010.0))
    return console.file.getvalue()


@pytest.mark.parametrize(("percentile", "shown"), [(50, r"\x1b\[32m *390 ms"), (99, r"\x1b\[31m *694 ms")])
def test_the_latency_at_the_slos_percentile_is_coloured(world, replay, percentile, shown):
    assert re.search(shown, drawn(world, replay, Objective(Target(percentile, 0.5), Target(99, 0.06))))


def test_an_objective_that_is_met_exactly_is_met(world):
    exact = Progress(started=1000.0, total=1, sent=1, outcomes=[outcome(1000.0, ttft=0.5)])
    assert re.search(r"\x1b\[32m *500 ms", drawn(world, exact, OBJECTIVE))


def test_lines_come_now_and_then():
    moments = iter([0.0, 0.0, 0.0, 5.0, 10.0, 10.0])
    console = Console(file=io.StringIO())
    view = PlainView(console, lambda: "line", clock=lambda: next(moments))
    for _ in range(3):
        view.refresh()
    assert console.file.getvalue() == "line\nline\n"


def test_a_screen_only_on_a_terminal(world, replay):
    assert isinstance(make_view(Console(file=io.StringIO()), world, replay, OBJECTIVE), PlainView)
    terminal = Console(file=io.StringIO(), force_terminal=True)
    view = make_view(terminal, world, replay, OBJECTIVE)
    assert isinstance(view, ScreenView)
    with view:
        view.refresh()


@pytest.mark.parametrize(
    ("given", "bar"),
    [
        (owners(used=1, ahead=1, offline=5, free=3), "█▓▒▒▒▒▒░░░"),
        (owners(offline=1000, free=1), "▒▒▒▒▒▒▒▒▒▒"),
        (owners(used=3, ahead=3, offline=3), "███▓▓▓▓▒▒▒"),
        (owners(), ""),
    ],
)
def test_a_bar_shows_the_owners_in_proportion(given, bar):
    assert owners_bar(given, 10).plain == bar


@pytest.fixture
def pooled(world):
    record = world.devices["node", "cpu1"]
    record.harvest = record.harvest.model_copy(update={"pool": owners(used=4, ahead=2, offline=90, free=4)})
    return world


def test_a_line_says_whose_the_pool_is(pooled, replay):
    assert "pool: service 4 (+2 ahead), jobs 90, free 4 MiB" in plain_line(pooled, replay, 1010.0)


def test_the_screen_has_a_bar_for_each_pool(pooled, replay):
    bar = next(line for line in drawn(pooled, replay, OBJECTIVE).splitlines() if "▒" in line)
    assert "node/cpu1" in bar
    assert "jobs 90" in bar


def test_without_pools_the_screen_has_no_empty_panel(world, replay):
    assert "pools of memory" not in drawn(world, replay, OBJECTIVE)


def test_where_jobs_ride_no_pool_is_shown(pooled, replay):
    """The demo's engine has a fixed part of the memory then."""
    record = pooled.devices["node", "cpu1"]
    record.harvest = record.harvest.model_copy(update={"co_serving": CoServing(seats=8)})
    assert "pools of memory" not in drawn(pooled, replay, OBJECTIVE)
    assert "pool:" not in plain_line(pooled, replay, 1010.0)
