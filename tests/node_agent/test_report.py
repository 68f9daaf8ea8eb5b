"""The report that is made from what the agent saw."""

import json
from datetime import UTC, datetime
from itertools import groupby

import pytest
from reports import GPU, closing, full, snapshot

from rowen.crds.harvest.busy import decode, grid
from rowen.crds.harvest.node_harvest import DeviceHarvest, NodeHarvestStatus, PoolOwners
from rowen.node_agent.config import CpuDeviceConfig
from rowen.node_agent.devices.counts import Request
from rowen.node_agent.kubelet.pods import Placements, PodView
from rowen.node_agent.memory.trace import MemorySample
from rowen.node_agent.report.latencies import Latencies
from rowen.node_agent.report.status import device_detail, device_harvest, node_status, quantiles

NOW = datetime(2026, 1, 1, 0, 0, 0, 250_000, UTC).timestamp()
GRID = grid(11000.0, 60.0)


def report(**changes):
    one = snapshot(**changes)
    return device_harvest(one, [one], window=60.0, over=GRID, unix_offset=10000.0)


def detail(**changes):
    return device_detail(snapshot(**changes), report(**changes))


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
    assert report(covered=60.5).covered_seconds is None
    assert busy_seconds(device) == [(60.0, 50.0), (10.0, 8.0)]
    assert device.preemptions == 7
    assert (device.online.service, device.online.attached, device.online.ttft.p99) == ("chat", True, 0.07)
    assert device.online.tpot.p50 == 0.01
    (tenant,) = device.tenants
    assert (tenant.job, tenant.tokens, tenant.granted_seconds, tenant.completed) == ("tune", 400, 7.5, 4)


def test_a_gate_that_is_closed_now_is_busy_until_now():
    device = report(closings=(closing(1, 995.0, None),))
    assert busy_seconds(device) == [(5.0, 0.0)]


def test_closes_that_stopped_nobody_or_were_no_request_have_no_latency():
    quiet = closing(1, 990.0, 991.0, acknowledged=990.1, tenants=0)
    lease = closing(2, 992.0, 993.0, acknowledged=992.1, for_request=False)
    assert detail(closings=(quiet, lease)).stops is None
    assert detail(closings=(closing(1, 995.0, None),)).stops is None


def test_what_is_told_by_http_alone():
    found = detail()
    assert (found.in_flight, found.per_request_max) == (0, 1)
    assert (found.stops.p50, found.stops.p99) == (0.001, 0.002)
    assert found.model_dump(include=set(DeviceHarvest.model_fields)) == report().model_dump()


def test_an_empty_device():
    device = report(placements=Placements(), requests=(), closings=())
    assert (device.online, device.tenants, busy_seconds(device)) == (None, [], [])


def test_the_status_survives_the_wire():
    status = node_status([snapshot()], now=NOW, window=60.0, unix_offset=0.0)
    assert status.update_time == "2026-01-01T00:00:00.250Z"
    assert NodeHarvestStatus.from_wire(status.to_wire()) == status


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
    assert (found.p50, found.p90, found.p95, found.p99) == (50, 90, 95, 99)
    assert quantiles([3.0]).p99 == 3.0


def test_memory_is_reported_where_it_changes_its_owner():
    assert (report().available, report().available_bytes, report().pool) == (None, [], None)
    gib = 2**30
    pool = PoolOwners(fixed_bytes=1, online_used_bytes=2, online_ahead_bytes=3, offline_bytes=4, free_bytes=5)
    device = report(memory=(MemorySample(990.0, 7 * gib), MemorySample(995.0, 5 * gib)), pool=pool)
    assert device.pool == pool
    assert device.available_bytes == pytest.approx([5 * gib, 7 * gib], abs=8 * gib / 65535 / 2 + 1)
    assert report(memory=(MemorySample(990.0, 8 * gib),)).available_bytes == [8 * gib]


def test_requests_are_told_once_for_all_devices_of_a_service_and_type():
    def device(name, pod, late, **changes):
        config = CpuDeviceConfig(id=name, cpus="1", memory="8Gi")
        latencies = Latencies()
        latencies.add([Request(1, 900.0, 901.0, late, None, 0, False)], 950.0, pod)
        requests = (Request(1, 989.9, 990.0, late, None, 0, False),)
        placed = Placements(pod)
        return snapshot(config=config, requests=requests, latencies=latencies, placements=placed, **changes)

    chat, other = (
        [PodView("shop", f"chat-{n}", service="chat") for n in range(3)],
        PodView("shop", "o", service="other"),
    )
    snapshots = [
        device("d0", chat[0], 0.1), device("d1", other, 0.2), device("d2", chat[1], 0.3),
        device("d3", chat[2], 0.4, hardware="slow"), device("d4", None, 0.5),
    ]  # fmt: skip
    status = node_status(snapshots, now=NOW, window=60.0, unix_offset=0.0)
    onlines = [found.online for found in status.devices]
    assert [online and online.ttft and (online.ttft.p50, online.ttft.p99) for online in onlines] == [
        (0.1, 0.3), (0.2, 0.2), None, (0.4, 0.4), None,
    ]  # fmt: skip
    assert [sum(window.ttft.requests for window in online.requests) for online in onlines if online] == [4, 2, 0, 2]


def test_what_all_devices_have_alike_is_told_once_and_each_has_it_again():
    snapshots = [snapshot(), snapshot(config=CpuDeviceConfig(id="cpu2", cpus="2", memory="4Gi"))]
    status = node_status(snapshots, now=NOW, window=60.0, unix_offset=0.0)
    wire = status.to_wire()
    assert (wire["type"], wire.get("memoryBytes")) == ("cpu", None)
    assert [device.get("memoryBytes") for device in wire["devices"]] == [2**33, 2**32]
    assert not any("type" in device for device in wire["devices"])
    assert NodeHarvestStatus.from_wire(wire) == status


def test_a_full_report_of_eight_devices_is_6_kb_at_most():
    status = node_status([full(number) for number in range(8)], now=NOW, window=60.0, unix_offset=NOW - 100_000.0)
    assert len(json.dumps(status.to_wire(), separators=(",", ":"))) <= 6 * 1024
    assert NodeHarvestStatus.from_wire(status.to_wire()) == status
