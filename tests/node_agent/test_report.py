"""The report that is made from what the agent saw."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby

import pytest

from rowen.crds.busy import decode, grid
from rowen.crds.node_harvest import NodeHarvestStatus, PoolOwners
from rowen.node_agent.config import CpuDeviceConfig, NvidiaDeviceConfig
from rowen.node_agent.devices.device import Closing, DeviceCounts, Request, TenantCounts
from rowen.node_agent.kubelet.pods import Placements, PodView
from rowen.node_agent.memory.trace import MemorySample
from rowen.node_agent.report.status import DeviceSnapshot, device_harvest, node_status, quantiles

TENANT = TenantCounts(
    attached=1,
    open_seconds=9.0,
    preemptions=3,
    backstops=1,
    reports=5,
    completed=4,
    total=10,
    tokens=400,
    granted_seconds=7.5,
)


NOW = datetime(2026, 1, 1, 0, 0, 0, 250_000, UTC).timestamp()
GRID = grid(11000.0, 60.0)


def closing(number, closed, opened, *, acknowledged=None, tenants=1, for_request=True):
    return Closing(number, closed, acknowledged, opened, tenants, for_request)


def snapshot(**changes):
    counts = DeviceCounts(
        now=1000.0,
        idle_seconds=50.0,
        harvested_seconds=40.0,
        preemptions=7,
        backstops=1,
        decode_gap=0.01,
        cooldown=0.02,
        gate_open=True,
        online_processes=2,
        in_flight=0,
        tenant_processes=1,
        tenants=(TENANT, TENANT),
    )
    values = {
        "config": CpuDeviceConfig(id="cpu1", cpus="1", memory="8Gi"),
        "hardware": "cpu",
        "usable": True,
        "counts": counts,
        "idle_fraction": 0.5,
        "harvested_fraction": 0.4,
        "covered": 12.3456,
        "requests": (Request(1, 989.9, 990.0, 0.05, 0.01, 1, True), Request(2, 990.9, 991.0, 0.07, None, 0, False)),
        "closings": (closing(1, 900.0, 950.0, acknowledged=900.001), closing(2, 990.0, 992.0, acknowledged=990.002)),
        "placements": Placements(PodView("shop", "chat-0", service="chat"), ((1, PodView("lab", "tune", job="tune")),)),
        **changes,
    }
    return DeviceSnapshot(**values)


def report(**changes):
    return device_harvest(snapshot(**changes), window=60.0, over=GRID, unix_offset=10000.0)


def busy_seconds(device):
    """Begins and ends of the runs of busy cells, seconds before the report."""
    cells = decode(device.busy, GRID.cells)
    runs = groupby(range(cells.cells), key=lambda cell: cells.bits >> cell & 1)
    found = [list(run) for busy, run in runs if busy]
    return [(11000 - GRID.start - run[0] / 16, 11000 - GRID.start - (run[-1] + 1) / 16) for run in found]


def test_a_device():
    device = report()
    assert (device.harvestable, device.gate_open, device.memory_bytes) == (True, True, 8 * 2**30)
    assert device.covered_seconds == 12.35
    assert report(covered=60.5).covered_seconds == 60.0
    assert busy_seconds(device) == [(60.0, 50.0), (10.0, 8.0)]
    assert (device.preemptions.total, device.preemptions.per_request_max) == (7, 1)
    assert device.preemptions.latency.count == 2
    assert device.preemptions.latency.max == pytest.approx(0.002)
    assert (device.online.service, device.online.attached, device.online.ttft.max) == ("chat", True, 0.07)
    assert device.online.tpot.count == 1
    (tenant,) = device.tenants
    assert (tenant.job, tenant.tokens, tenant.granted_seconds, tenant.completed) == ("tune", 400, 7.5, 4)


def test_a_gate_that_is_closed_now_is_busy_until_now():
    device = report(closings=(closing(1, 995.0, None),))
    assert busy_seconds(device) == [(5.0, 0.0)]
    assert device.preemptions.latency is None


def test_closes_that_stopped_nobody_or_were_no_request_have_no_latency():
    quiet = closing(1, 990.0, 991.0, acknowledged=990.1, tenants=0)
    lease = closing(2, 992.0, 993.0, acknowledged=992.1, for_request=False)
    assert report(closings=(quiet, lease)).preemptions.latency is None


def test_an_empty_device():
    device = report(placements=Placements(), requests=(), closings=())
    assert (device.online, device.tenants, busy_seconds(device)) == (None, [], [])


def test_the_status_survives_the_wire():
    status = node_status([snapshot()], now=NOW, window=60.0, unix_offset=0.0)
    assert status.update_time == "2026-01-01T00:00:00.250Z"
    assert NodeHarvestStatus.from_wire(status.to_wire()) == status


GPU = NvidiaDeviceConfig(id="gpu0", backend="nvidia", gpu="GPU-8bd57e0a-1111-2222-3333-444455556666", memory="80Gi")


@pytest.mark.parametrize(("configs", "backend"), [([], None), ([GPU], "nvidia"), ([snapshot().config, GPU], None)])
def test_the_backend_of_a_node_is_that_of_all_its_devices(configs, backend):
    snapshots = [snapshot(config=config) for config in configs]
    assert node_status(snapshots, now=NOW, window=60.0, unix_offset=0.0).backend == backend


def pool(*gibibytes):
    return PoolOwners.model_validate(dict(zip(PoolOwners.model_fields, (n * 2**30 for n in gibibytes), strict=True)))


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        ([], ("0", "-", "-")),
        ([None], ("8Gi", "-", "-")),
        # Fixed; used by the engine and ahead of its need; offline; free.
        ([pool(3, 1, 1, 2, 1)], ("8Gi", "5Gi", "2Gi")),
        ([pool(8, 0, 0, 0, 0), None], ("16Gi", "0", "0")),
        ([pool(3, 1, 1, 2, 1), pool(7, 0, 0, 0.5, 0.5)], ("16Gi", "6Gi", "2.5Gi")),
    ],
)
def test_a_nodes_memory_in_one_line(pools, expected):
    snapshots = [snapshot(pool=owners) for owners in pools]
    summary = node_status(snapshots, now=NOW, window=60.0, unix_offset=0.0).to_wire()["summary"]
    assert (summary["memory"], summary["pool"], summary["lent"]) == expected


def test_a_device_that_is_not_in_order_takes_no_offline_work():
    device = report(usable=False, hardware="NVIDIA H200")
    assert (device.harvestable, device.type, device.online.attached) == (False, "NVIDIA H200", True)


def test_quantiles_are_nearest_rank():
    assert quantiles([]) is None
    found = quantiles(float(i) for i in range(1, 101))
    assert (found.count, found.p50, found.p90, found.p95, found.p99, found.max) == (100, 50, 90, 95, 99, 100)
    assert quantiles([3.0]).p99 == 3.0


def test_memory_is_reported_where_it_changes_its_owner():
    assert (report().memory, report().pool) == (None, None)
    sample = MemorySample(990.0, used=10, headroom=15, reclaimable=30, free=40, reclaims=5, tokens_lost=6)
    later = replace(sample, time=995.0, reclaimable=10, reclaims=7, tokens_lost=106)
    pool = PoolOwners(fixed_bytes=1, online_used_bytes=2, online_ahead_bytes=3, offline_bytes=4, free_bytes=5)
    device = report(memory=(sample, later), pool=pool)
    assert device.pool == pool
    assert (device.memory.seconds, device.memory.reclaims, device.memory.tokens_lost) == (10.0, 2, 100)
    assert (device.memory.available_bytes[0], device.memory.available_bytes[-1]) == (50, 70)
