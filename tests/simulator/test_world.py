"""What the scheduler is told of a simulated fleet."""

import numpy as np
import pytest

from rowen.scheduler.device import DeviceView
from rowen.scheduler.model.idle import IdleWindow, bursts, idle_level
from rowen.simulator.loop import plan
from rowen.simulator.node.engine import Engine
from rowen.simulator.node.service import RequestFeed
from rowen.simulator.shape import Shape
from rowen.simulator.sources.example import Example
from rowen.simulator.world import World

GIB = 1 << 30


def device(shape: Shape, engine: Engine, *closed: float) -> DeviceView:
    """After steps with so many closed seconds each, in two bursts."""
    world = World(shape, engine)
    for seconds in closed:
        world.step(np.array([seconds]), np.array([0b1100011], dtype=np.uint64), np.array([4.0 * GIB]))
    return world.snapshot(1000.0, {}, []).nodes["node-00000"].devices[0]


def test_idle_time_is_foreseen_as_in_the_cluster() -> None:
    found = device(Shape(nodes=1), Engine(), *[30.0] * 90, 6.0)
    hour = IdleWindow(3600.0, pytest.approx(1.0 - (59 * 30.0 + 6.0) / 3600.0))  # type: ignore[arg-type]
    assert found.idles[0] == hour
    level = idle_level(IdleWindow(60.0, 0.9), bursts(found.busy), found.idles)
    assert bursts(found.busy) == 2
    assert (found.seen_idle, found.idle, found.deviation) == (pytest.approx(0.9), level.fraction, level.deviation)
    assert 0.5 < found.idle < 0.75


def test_a_first_report_covers_what_there_was() -> None:
    shape = Shape(nodes=1, window_seconds=180.0)
    found = device(shape, Engine(), 30.0, 0.0)
    level = idle_level(IdleWindow(120.0, 0.75), bursts(found.busy), ())
    assert (found.idle, found.deviation) == (level.fraction, level.deviation)


@pytest.mark.parametrize("engine", [Engine(), Engine(pool_bytes=10 * GIB), Engine(pool_bytes=48 * GIB)])
def test_jobs_have_for_themselves_what_the_engine_never_takes(engine: Engine) -> None:
    shape = Shape(nodes=1)
    hardware = plan(shape, RequestFeed(Example(1.0, 0)), engine, ()).hardware
    assert engine.memory_bytes + hardware.pool_bytes == 80 * GIB
    assert device(shape, engine, 0.0).room == hardware.pool_bytes - engine.pool_bytes


def test_memory_is_told_by_device() -> None:
    """Two devices of one engine: a job on the second has taken 1 GiB of it in the last of two steps."""
    world = World(Shape(nodes=1, devices_per_node=2, window_seconds=120.0), Engine())
    for second in (4.0, 3.0):
        world.step(np.array([0.0]), np.array([0], dtype=np.uint64), np.array([4.0, second]) * GIB)
    devices = world.snapshot(1000.0, {}, []).nodes["node-00000"].devices
    assert [found.available for found in devices] == [(4 * GIB, 4 * GIB), (3 * GIB, 4 * GIB)]
