"""Devices as the agent knows them, from which its own code makes reports."""

import random
from dataclasses import replace

from rowen.crds.harvest.node_harvest import PoolOwners
from rowen.node_agent.config import CpuDeviceConfig, NvidiaDeviceConfig
from rowen.node_agent.devices.counts import Closing, DeviceCounts, Request, TenantCounts
from rowen.node_agent.kubelet.pods import Placements, PodView
from rowen.node_agent.memory.trace import MemorySample
from rowen.node_agent.report.idles import LongIdles
from rowen.node_agent.report.latencies import Latencies
from rowen.node_agent.report.status import DeviceSnapshot

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

GPU = NvidiaDeviceConfig(id="gpu0", backend="nvidia", gpu="GPU-8bd57e0a-1111-2222-3333-444455556666", memory="80Gi")


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


def full(number):
    """A device with all that a report can tell: an engine, a job, latencies, memory, an hour and a day."""
    source, now = random.Random(number), 100_000.0
    pod = PodView("shop", f"chat-6d5f7c9b8d-x{number}x4z", service="chat")
    latencies, idles, requests, idle = Latencies(), LongIdles(), [], 0.0
    for minute in range(1500):
        idles.add(now - 90_000 + 60 * minute, idle)
        idle += 60 * min(1.0, max(0.0, source.gauss(0.6, 0.2)))
    for index in range(700):
        end, late = now - 700 + index, (source.lognormvariate(-2, 0.8), source.lognormvariate(-4, 0.3))
        requests.append(Request(index, end - 1, end, *late, 1, source.random() < 0.8))
    latencies.add(requests, now, pod)
    closed = [now - 60 + 5 * index + 2 * source.random() for index in range(12)]
    closings = [closing(index, at, at + 1 + source.random()) for index, at in enumerate(closed)]
    memory, left = [], 20.0
    for index in range(120):
        left = min(38.0, max(0.5, left + source.gauss(0, 1)))
        memory.append(MemorySample(now - 60 + index / 2, int(left * 2**30)))
    counts = replace(snapshot().counts, now=now, preemptions=12_345 + number)
    return snapshot(
        config=GPU.model_copy(update={"id": f"gpu{number}"}), hardware="NVIDIA H100 80GB HBM3", counts=counts,
        idle_fraction=0.7123, harvested_fraction=0.6891, covered=60.2, requests=tuple(requests[-60:]),
        closings=tuple(closings), memory=tuple(memory), idles=idles, latencies=latencies,
        pool=PoolOwners(fixed_bytes=12 * 2**30, online_used_bytes=6_780_092_416, online_ahead_bytes=987_758_592,
                        offline_bytes=14_923_333_632, free_bytes=50_323_259_392),
        placements=Placements(pod, ((0, PodView("lab", f"tune-adapter-{number}-1", job=f"tune-adapter-{number}")),)),
    )  # fmt: skip
