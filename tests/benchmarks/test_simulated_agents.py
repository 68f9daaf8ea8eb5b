"""What the control plane's simulated agents report, beside a report that the agent's own code makes of real figures."""

import json

import pytest
from plane.agents import Agent, Tally, random
from plane.engine import Engine
from plane.names import NAMESPACE
from plane.progress import TOKENS_PER_SECOND, Progress
from reports import full

from rowen.crds.harvest.node_harvest import DeviceHarvest, NodeHarvestStatus
from rowen.node_agent.kubelet.pods import PodView
from rowen.node_agent.report.status import node_status

UNIX = 1.7e9
ENGINE = PodView(NAMESPACE, "engine-a", service="chat")
JOBS = [PodView(NAMESPACE, f"job-0000{number}-x4z", job=f"job-0000{number}", devices=(f"gpu{number}",))
        for number in range(8)]  # fmt: skip


def reported(agent: Agent, pods: list[PodView], now: float) -> NodeHarvestStatus:
    return node_status(agent.snapshots(pods, now), now=UNIX + now, window=60.0, unix_offset=UNIX)


def size(status: NodeHarvestStatus) -> int:
    """Bytes of the report as it is written."""
    return len(json.dumps(status.to_wire(), separators=(",", ":")))


def told(device: DeviceHarvest) -> set[str]:
    """Names of what the report tells of the device, its engine and its tenants."""
    online = device.online
    assert online is not None
    parts = [("", device), ("online.", online), *(("tenant.", tenant) for tenant in device.tenants)]
    return {f"{prefix}{name}" for prefix, part in parts for name, value in part if value not in (None, [], 0)}


def test_a_report_is_as_large_and_tells_as_much_as_a_real_one() -> None:
    """A job on each of eight devices for some minutes; the real one has figures that were drawn."""
    agent = Agent(None, 3, random.Random(0), Tally())  # type: ignore[arg-type]
    for look in range(20):
        found = reported(agent, JOBS, 100_000.0 + 20.0 * look)
    real = node_status([full(number) for number in range(8)], now=UNIX, window=60.0, unix_offset=UNIX - 100_000.0)
    assert size(found) == pytest.approx(size(real), rel=0.1)
    for ours, theirs in zip(found.devices, real.devices, strict=True):
        # That the kernel had to stop a tenant is none of the figures of a healthy one.
        assert told(theirs) - told(ours) <= {"tenant.backstops", "gate_open"}
    windows = found.devices[0].online.requests if found.devices[0].online else []
    assert [(window.offline, window.ttft and window.ttft.requests) for window in windows] == [
        (True, pytest.approx(360, abs=40)), (False, pytest.approx(240, abs=40))
    ]  # fmt: skip


def test_a_tenant_makes_its_part_of_what_the_gate_allows() -> None:
    """Idle half of the time: 20 s alone, 20 s beside another one; who has just come has done nothing."""
    progress = Progress(0.5)
    first, second = JOBS[:2]
    progress.advance([[first]], 100.0)
    assert (progress.counts(first).tokens, progress.counts(first).granted_seconds) == (0, 0.0)
    progress.advance([[first]], 120.0)
    assert progress.counts(first).tokens == 10 * TOKENS_PER_SECOND
    progress.advance([[first, second]], 120.0)
    progress.advance([[first, second]], 140.0)
    assert progress.counts(first).tokens == 15 * TOKENS_PER_SECOND
    assert progress.counts(first).granted_seconds == 20.0
    assert progress.counts(second).tokens == 5 * TOKENS_PER_SECOND
    progress.advance([[second]], 160.0)
    progress.advance([[first, second]], 160.0)
    assert progress.counts(first).tokens == 0, "a pod that comes back is another one"


def test_every_window_has_the_same_requests() -> None:
    engine = Engine(ENGINE, 0.4, 1.3)
    windows = [engine.requests(now - 60.0, now, beside=False) for now in (1000.0, 1007.1, 1033.0)]
    assert {len(found) for found in windows} == {60}
    first, *others = [sorted(request.ttft for request in found) for found in windows]
    assert all(found == first for found in others)
    assert first[0] < 0.03 < 0.5 < first[-1]
    assert all(0 <= request.end - request.begin < 0.5 for request in windows[0])


def test_longer_windows_are_as_idle_as_the_engine_leaves_them() -> None:
    engine = Engine(ENGINE, 0.4, 1.3)
    engine.look(1000.0, beside=False)
    found = engine.idles.windows(60.0)
    assert [window.fraction for window in found] == [0.6, 0.6]
    assert [window.seconds for window in found] == pytest.approx([3600, 86_400], rel=0.02)
