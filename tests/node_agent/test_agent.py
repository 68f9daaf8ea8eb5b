"""The agent's loops together: a device with real processes, a kubelet on real sockets, an API server that may fail."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace

import httpx
import pytest
from gate.pod import Pod
from gate.stuck import stuck_device_thread
from structlog.testing import capture_logs

from rowen.crds.harvest.node_harvest import NodeHarvestSpec
from rowen.crds.names import (
    HARVEST_RESOURCE,
    HEARTBEAT_SECONDS,
    LATE_SECONDS,
    NODE_LEASE_SECONDS,
    ONLINE_RESOURCE,
    PROGRESS_SECONDS,
    RIDE_RESOURCE,
)
from rowen.kube.errors import RefusedError, UnreachableError
from rowen.node_agent import tries
from rowen.node_agent.agent import _LONGEST_PAUSE, Agent, _pause
from rowen.node_agent.attach.cgroup import PodCgroup
from rowen.node_agent.attach.eviction import kill
from rowen.node_agent.attach.offence import Reason, Tell, kept_memory
from rowen.node_agent.attach.watch import Notice
from rowen.node_agent.cluster import _TIMEOUT_SECONDS
from rowen.node_agent.config import CpuDeviceConfig, Settings
from rowen.node_agent.health import LOOP_PATIENCE
from rowen.node_agent.kubelet.pods import PodView
from rowen.node_agent.native import library_path
from rowen.node_agent.node import Node
from rowen.node_agent.proto import deviceplugin_pb2 as messages
from rowen.node_agent.server import create_app

ENGINE = """
import ctypes, sys, time
library = ctypes.CDLL(sys.argv[1])
# An agent that gets no CPU for a second answers later; the library goes on asking.
while library.rowen_online_attach(sys.argv[2].encode()) != 0:
    time.sleep(0.01)
while True:
    begin = time.monotonic_ns()
    library.rowen_online_busy()
    time.sleep(0.005)
    record = library.rowen_online_record
    record.argtypes = [ctypes.c_uint64] * 3 + [ctypes.c_uint32] * 2
    record(begin, 5000000, 1000000, 4, 1)
    library.rowen_online_idle()
    time.sleep(0.05)
"""


class FakeCluster:
    def __init__(self, pod_uid):
        self.reports = []
        self.ensured = 0
        self.events = []
        self.up = True
        self.renewals = self.looks = self.lists = 0
        self.unheard = []
        """Pods of which the watch has not told."""
        self.pod_list = [
            PodView("shop", "chat-0", service="chat"),
            PodView("lab", "tune-0", job="tune", uid=pod_uid),
        ]

    def _check(self):
        if not self.up:
            raise UnreachableError("down")

    async def ensure(self):
        self.ensured += 1
        self._check()
        return NodeHarvestSpec(interval_seconds=1)

    async def follow(self):
        await asyncio.Event().wait()

    def known_pods(self):
        return self.pod_list

    async def pods(self):
        self._check()
        self.looks += 1
        return self.pod_list

    async def list_pods(self):
        self._check()
        self.lists += 1
        self.pod_list, self.unheard = self.pod_list + self.unheard, []
        return self.pod_list

    async def pod(self, uid):
        return next((pod for pod in await self.list_pods() if pod.uid == uid), None)

    async def event(self, pod, reason, message):
        self._check()
        self.events.append((pod.name, reason, message))

    async def report(self, status):
        self._check()
        self.reports.append(status)

    async def renew(self):
        self._check()
        self.renewals += 1

    def last(self):
        return self.reports[-1].devices[0] if self.reports else None


def start(code, *arguments, pod=None, **environment):
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(pod.command(command, environment) if pod else command)


@pytest.fixture
def pod():
    pod = Pod()
    yield pod
    pod.remove()


@pytest.fixture
async def world(kubelet, folder, pod):
    settings = Settings(
        node="n", run_directory=folder / "run", device_plugins=kubelet.folder, pod_resources=kubelet.pod_resources
    )
    config = CpuDeviceConfig(id="cpu1", cpus=str(max(os.sched_getaffinity(0))), memory="1Gi")
    node = Node(settings, [config])
    cluster = FakeCluster(pod.uid)
    agent = Agent(settings, node, cluster)
    kubelet.held = {
        ("shop", "chat-0"): {ONLINE_RESOURCE: ["cpu1"]},
        ("lab", "tune-0"): {HARVEST_RESOURCE: ["cpu1-0"]},
    }
    doors = folder / "run/devices/cpu1"
    engine = start(ENGINE, str(library_path()), str(doors / "engine/agent.sock"))
    tenant = start(
        "while True: pass",
        pod=pod,
        LD_PRELOAD=str(folder / "run/lib/librowen.so"),
        ROWEN_TENANT_SOCKETS=str(doors / "tenant-0/agent.sock"),
    )
    task = asyncio.create_task(agent.run())
    yield agent, cluster, tenant
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    node.close()
    pod.thaw()
    for process in (engine, tenant):
        process.kill()
        process.wait()


async def until(condition):
    # A report comes a minute after the last one where nothing else has changed by much.
    end = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


async def test_reports_pods_requests_and_harvest(world):
    agent, cluster, _ = world
    await until(
        lambda: (
            (device := cluster.last())
            and device.tenants
            and device.tenants[0].preemptions
            and device.online.ttft
            and agent.details()[0].per_request_max
        )
    )
    device = cluster.last()
    assert (device.harvestable, device.online.service, device.tenants[0].job) == (True, "chat", "tune")
    assert device.tenants[0].attached
    assert agent.details()[0].per_request_max == 1
    await until(lambda: 0 < cluster.last().harvested_fraction <= cluster.last().idle_fraction <= 1)
    assert cluster.last().pool.free_bytes == 2**30
    assert cluster.last().available_bytes[-1] == 2**30
    assert agent.unready() is None


async def test_http(world):
    agent, cluster, _ = world
    await until(lambda: (device := cluster.last()) and device.online and device.online.ttft)
    transport = httpx.ASGITransport(app=create_app(agent))
    async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
        metrics = (await client.get("/metrics")).text
        assert 'rowen_device_gate_open{device="cpu1",node="n"}' in metrics
        assert 'rowen_preemptions_total{device="cpu1",node="n"}' in metrics
        assert 'rowen_device_spatial_share{device="cpu1",node="n"} 0.0' in metrics
        assert 'rowen_memory_bytes{device="cpu1",node="n",owner="free"} 1.073741824e+09' in metrics
        assert 'rowen_reclaims_total{device="cpu1",node="n"} 0.0' in metrics
        timeline = (await client.get("/v1/devices/cpu1/timeline", params={"since": time.time() - 5})).json()
        assert timeline["requests"][-1]["ttft_seconds"] == 0.005
        assert abs(timeline["transitions"][-1]["closed"] - time.time()) < 30
        assert timeline["transitions"][-1]["share"] is None
        assert (await client.get("/v1/devices/other/timeline")).status_code == 404
        assert (await client.get("/v1/devices")).json()["devices"][0]["id"] == "cpu1"


async def test_health_names_a_device_whose_native_thread_is_stuck(world):
    agent, cluster, _ = world
    await until(lambda: cluster.reports)
    transport = httpx.ASGITransport(app=create_app(agent))
    async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
        with stuck_device_thread(os.getpid()):
            await until(agent.stalled)
            answer = await client.get("/healthz")
            assert answer.status_code == 503
            assert "stalled: device cpu1: its native thread has not come round for" in answer.json()["detail"]
        await until(lambda: not agent.stalled())
        assert (await client.get("/healthz")).status_code == 200


async def test_offline_work_pauses_without_an_api_server(world, monkeypatch):
    agent, cluster, _ = world
    await until(lambda: cluster.reports)
    cluster.up = False
    # As if the last report had been accepted long ago.
    agent.node.last_accepted = time.monotonic() - NODE_LEASE_SECONDS
    gate = agent.node.devices["cpu1"].gate
    await until(lambda: not gate.counts().gate_open and not gate.closings(0)[-1].for_request)
    assert agent.unready() is not None
    cluster.up = True
    await until(lambda: gate.counts().gate_open)


async def test_there_is_no_heartbeat_while_a_report_that_is_due_is_not_accepted(world, monkeypatch):
    agent, cluster, _ = world
    monkeypatch.setattr("rowen.node_agent.agent.HEARTBEAT_SECONDS", 0.1)
    await until(lambda: cluster.renewals and agent.node.last_accepted is not None)
    report = cluster.report

    async def refuse(_):
        raise RefusedError(422, "Invalid", "what it says")

    monkeypatch.setattr(cluster, "report", refuse)
    await until(lambda: not agent._stands.is_set())
    await asyncio.sleep(1)
    sent = cluster.renewals
    await asyncio.sleep(1)
    assert cluster.renewals == sent
    monkeypatch.setattr(cluster, "report", report)
    await until(lambda: cluster.renewals > sent)


@pytest.mark.parametrize("error", [RefusedError(504, "Timeout", "busy"), UnreachableError("no answer")])
async def test_a_busy_api_server_gets_one_write_for_a_report_that_it_did_not_take(world, monkeypatch, error):
    """Nothing is made anew for it, and the heartbeat goes on: what was written last stands."""
    agent, cluster, _ = world
    monkeypatch.setattr("rowen.node_agent.agent.HEARTBEAT_SECONDS", 0.1)
    await until(lambda: cluster.reports)
    report, ensured, tried = cluster.report, cluster.ensured, []

    async def fail(status):
        tried.append(status)
        raise error

    monkeypatch.setattr(cluster, "report", fail)
    agent._written = None
    await until(lambda: len(tried) >= 2)
    sent = cluster.renewals
    await until(lambda: cluster.renewals > sent)
    monkeypatch.setattr(cluster, "report", report)
    written = len(cluster.reports)
    # Whatever it says: the one before may have been stored though no answer came.
    await until(lambda: len(cluster.reports) > written)
    assert cluster.ensured == ensured


async def test_heartbeats_end_when_the_last_report_that_was_accepted_is_late(world, monkeypatch):
    agent, cluster, _ = world
    monkeypatch.setattr("rowen.node_agent.agent.HEARTBEAT_SECONDS", 0.1)
    await until(lambda: cluster.renewals)
    report = cluster.report

    async def fail(_):
        raise RefusedError(504, "Timeout", "busy")

    monkeypatch.setattr(cluster, "report", fail)
    agent._written = None
    agent._reported -= LATE_SECONDS
    await until(lambda: not agent._stands.is_set())
    sent = cluster.renewals
    await asyncio.sleep(1)
    assert cluster.renewals == sent
    monkeypatch.setattr(cluster, "report", report)
    await until(lambda: cluster.renewals > sent)


async def test_a_node_that_cannot_be_looked_at_has_no_heartbeat(world, monkeypatch):
    agent, cluster, _ = world
    await until(lambda: cluster.reports and agent._stands.is_set())

    def gone():
        raise OSError("gone")

    monkeypatch.setattr(agent, "status", gone)
    await until(lambda: not agent._stands.is_set())


@pytest.mark.parametrize("error", [RefusedError(504, "Timeout", "busy"), UnreachableError("no answer")])
async def test_a_list_of_pods_that_fails_costs_no_report(world, monkeypatch, error):
    agent, cluster, _ = world
    await until(lambda: cluster.reports and agent._written)
    asked = []

    async def fail():
        asked.append(True)
        raise error

    monkeypatch.setattr(cluster, "pods", fail)
    await until(lambda: len(asked) >= 2)
    assert agent._written is not None
    assert agent._stands.is_set()


async def test_an_agent_that_waits_for_a_slow_api_server_is_not_stalled(world, monkeypatch):
    """Restarted, it would ask for more, and its devices' leases would run out."""
    agent, cluster, _ = world
    await until(lambda: cluster.reports)
    answers = []

    async def slow():
        await asyncio.sleep(0.2)
        answers.append(time.monotonic())
        raise RefusedError(504, "Timeout", "busy")

    monkeypatch.setattr("rowen.node_agent.agent._pause", lambda *_: 3600.0)
    monkeypatch.setattr(cluster, "pods", slow)
    await until(lambda: answers and agent._beats["report"] >= answers[0])
    assert 1.25 * PROGRESS_SECONDS < LOOP_PATIENCE, "the longest pause"


async def test_a_long_interval_costs_neither_heartbeat_nor_agent(world, monkeypatch):
    """Reports are late after two minutes, and a loop is stalled after half a minute."""
    agent, cluster, _ = world
    await until(lambda: cluster.reports)
    monkeypatch.setattr("rowen.node_agent.agent.PROGRESS_SECONDS", 0.2)
    agent._spec = NodeHarvestSpec(interval_seconds=300)
    looks = cluster.looks
    await until(lambda: cluster.looks >= looks + 3)


async def test_a_report_that_is_accepted_is_a_sign_of_life_where_heartbeats_are_refused(world, monkeypatch):
    """Its change is one to the scheduler too, which would wait for work that stands still."""
    agent, cluster, _ = world

    async def refuse():
        raise RefusedError(403, "Forbidden", "exceeded quota")

    monkeypatch.setattr(cluster, "renew", refuse)
    await until(lambda: agent.node.last_accepted is not None)
    gate = agent.node.devices["cpu1"].gate
    await until(lambda: gate.counts().gate_open)
    # As if that had been long ago: the next report, and nothing else, lets work go on.
    agent.node.last_accepted = time.monotonic() - NODE_LEASE_SECONDS
    agent._written = None
    await until(lambda: agent.unready() is None)


async def test_what_is_accepted_late_takes_nothing_back(world):
    agent, _, _ = world
    later = time.monotonic() + 100
    agent._accepted(later)
    agent._accepted(later - 5)
    assert agent.node.last_accepted == later


def test_a_busy_api_server_s_wish_costs_no_lease():
    busy = RefusedError(429, "TooManyRequests", "later", 20.0)
    # A heartbeat's time, a try and a second one that both take as long as they may.
    left = NODE_LEASE_SECONDS - HEARTBEAT_SECONDS - 2 * _TIMEOUT_SECONDS
    assert all(_pause(busy, failures, _LONGEST_PAUSE) < left for failures in (1, 2, 100))


def test_a_report_waits_as_long_as_a_busy_api_server_wishes():
    busy = RefusedError(429, "TooManyRequests", "later", 18.0)
    assert _pause(busy, 1, PROGRESS_SECONDS) >= 18.0


async def test_a_device_with_a_fault_is_not_offered_and_stops_its_work(world, kubelet, monkeypatch):
    agent, cluster, _ = world
    await until(lambda: cluster.last() and cluster.last().harvestable)
    gate = agent.node.devices["cpu1"].gate
    found = {"cpu1": "cpus: the node has 0, and not 1"}
    monkeypatch.setattr(agent.node, "find_faults", lambda: found)
    await until(lambda: not cluster.last().harvestable)
    # The engine is idle again some moments after each request.
    await until(lambda: not (counts := gate.counts()).gate_open and gate.closings(0)[-1].closed < counts.now - 1)
    seats = kubelet.plugin(RIDE_RESOURCE).ListAndWatch(messages.Empty())
    assert {(device.ID, device.health) for device in (await seats.read()).devices} == {
        (f"cpu1-{number}", "Unhealthy") for number in range(8)
    }
    seats.cancel()
    watch = kubelet.plugin(HARVEST_RESOURCE).ListAndWatch(messages.Empty())
    response = await watch.read()
    assert [(device.ID, device.health) for device in response.devices] == [
        ("cpu1-0", "Unhealthy"),
        ("cpu1-1", "Unhealthy"),
    ]
    found.clear()
    await until(lambda: cluster.last().harvestable and gate.counts().gate_open)
    assert [device.health for device in (await asyncio.wait_for(watch.read(), 20)).devices] == ["Healthy", "Healthy"]
    watch.cancel()


async def test_the_slot_of_a_pod_that_is_gone_is_cleared(world, kubelet):
    agent, cluster, tenant = world
    await until(lambda: (device := cluster.last()) and device.tenants and device.tenants[0].granted_seconds > 0)
    tenant.kill()
    kubelet.held.pop(("lab", "tune-0"))
    await until(lambda: agent.node.devices["cpu1"].gate.counts().tenants[0].open_seconds == 0)
    await until(lambda: not cluster.last().tenants)


async def test_a_pod_that_the_kernel_has_to_stop_again_is_told_of_and_evicted(world, pod, folder):
    """Its program has taken the gate's handler away by a raw system call."""
    _, cluster, _ = world
    code = """
import ctypes
action = (ctypes.c_uint64 * 4)(1, 0, 0, 0)
assert ctypes.CDLL(None).syscall(13, 23, action, None, 8) == 0
while True: pass
"""
    rogue = start(
        code,
        pod=pod,
        LD_PRELOAD=str(folder / "run/lib/librowen.so"),
        ROWEN_TENANT_SOCKETS=str(folder / "run/devices/cpu1/tenant-0/agent.sock"),
    )
    await until(lambda: rogue.poll() is not None)
    assert rogue.returncode == -9
    await until(lambda: len(cluster.events) >= 2)
    (name, reason, message), (_, last, _) = cluster.events[:2]
    assert (name, reason, last) == ("tune-0", "HandlerReplaced", "EvictedHandlerReplaced")
    assert f"process {rogue.pid} (python" in message


def refusal(folder, pod=None):
    """What a process is told that may not come in."""
    environment = {
        "LD_PRELOAD": str(folder / "run/lib/librowen.so"),
        "ROWEN_TENANT_SOCKETS": str(folder / "run/devices/cpu1/tenant-0/agent.sock"),
    }
    command = [sys.executable, "-c", "pass"]
    given = [f"{name}={value}" for name, value in environment.items()]
    stranger = subprocess.run(
        pod.command(command, environment) if pod else ["env", *given, *command],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert stranger.returncode == 1
    return stranger.stderr


async def test_a_process_outside_of_any_pod_is_not_let_in(world, folder):
    assert "in no pod's cgroup" in await asyncio.to_thread(refusal, folder)


async def test_another_pod_does_not_come_in_while_the_slot_s_own_runs(world, folder, pod):
    _, cluster, _ = world
    await until(lambda: (device := cluster.last()) and device.tenants and device.tenants[0].attached)
    other = Pod()
    try:
        with capture_logs() as logs:
            told = await asyncio.to_thread(refusal, folder, other)
        assert "the slot belongs to another pod, whose processes still run" in told
        # Whose it is the agent's log alone says.
        assert pod.uid not in told
        assert pod.uid in [log.get("pod") for log in logs]
    finally:
        other.remove()


async def test_a_pod_that_the_watch_has_not_told_of_is_told_too(world, pod):
    agent, cluster, _ = world
    notice = Notice(PodCgroup(pod.uid, pod.freezer, pod.cpuacct), Tell(Reason.UNACKNOWLEDGED, "it did not stop"))
    cluster.pod_list, cluster.unheard = cluster.pod_list[:1], cluster.pod_list[1:]
    await agent.handle(notice)
    assert cluster.events == [("tune-0", "Unacknowledged", "it did not stop")]


async def test_pods_are_listed_where_the_kubelet_has_heard_of_one_earlier(world, kubelet):
    _, cluster, _ = world
    await until(lambda: (device := cluster.last()) and device.tenants)
    assert cluster.lists == 0
    cluster.unheard = [PodView("lab", "late-0", job="late", fixed_bytes=2**28)]
    kubelet.held["lab", "late-0"] = {HARVEST_RESOURCE: ["cpu1-1"]}
    await until(lambda: [tenant.job for tenant in cluster.last().tenants] == ["tune", "late"])
    assert cluster.lists == 1


async def test_a_slot_is_preferred_for_a_pod_that_has_just_come(world, kubelet):
    """The kubelet asks before the next look at the node."""
    _, cluster, _ = world
    await until(lambda: cluster.reports)
    cluster.pod_list = [PodView("lab", "new-0", phase="Pending", devices=("cpu1",))]
    containers = [
        messages.ContainerPreferredAllocationRequest(available_deviceIDs=["cpu0-0", "cpu1-1"], allocation_size=1)
    ]
    request = messages.PreferredAllocationRequest(container_requests=containers)
    response = await kubelet.plugin(HARVEST_RESOURCE).GetPreferredAllocation(request)
    assert list(response.container_responses[0].deviceIDs) == ["cpu1-1"]
    response = await kubelet.plugin(RIDE_RESOURCE).GetPreferredAllocation(request)
    assert list(response.container_responses[0].deviceIDs) == ["cpu0-0"]
    cluster.pod_list = [PodView("lab", "new-1", phase="Pending", devices=("cpu1",), rides=True)]
    response = await kubelet.plugin(RIDE_RESOURCE).GetPreferredAllocation(request)
    assert list(response.container_responses[0].deviceIDs) == ["cpu1-1"]


async def test_the_kubelet_asks_which_devices_an_engine_is_to_get(world, kubelet):
    _, cluster, _ = world
    await until(lambda: cluster.reports)
    options = await kubelet.plugin(ONLINE_RESOURCE).GetDevicePluginOptions(messages.Empty())
    assert options.get_preferred_allocation_available
    containers = [messages.ContainerPreferredAllocationRequest(available_deviceIDs=["cpu1"], allocation_size=1)]
    request = messages.PreferredAllocationRequest(container_requests=containers)
    response = await kubelet.plugin(ONLINE_RESOURCE).GetPreferredAllocation(request)
    assert list(response.container_responses[0].deviceIDs) == ["cpu1"]


@pytest.mark.parametrize("kill", ["refused", "too slow"])
async def test_a_pod_that_could_not_be_killed_is_not_said_to_be_evicted(world, pod, folder, monkeypatch, kill):
    agent, cluster, tenant = world
    await until(lambda: (device := cluster.last()) and device.tenants and device.tenants[0].attached)
    real = PodCgroup(pod.uid, pod.freezer, pod.cpuacct)
    if kill == "refused":
        # A folder is no cgroup.
        await agent.handle(Notice(replace(real, directory=folder), kept_memory(5)))
    else:
        with monkeypatch.context() as patch:
            patch.setattr("rowen.node_agent.agent.kill", lambda _: False)
            await agent.handle(Notice(real, kept_memory(5)))
    assert cluster.events == []
    await agent.handle(Notice(real, kept_memory(5)))
    assert await asyncio.to_thread(tenant.wait, 20) == -9
    assert [(name, reason) for name, reason, _ in cluster.events] == [("tune-0", "EvictedKeptMemory")]


async def test_an_engine_whose_memory_limit_is_above_its_device_is_told_once(world):
    _, cluster, _ = world
    cluster.pod_list[0] = replace(cluster.pod_list[0], uid="e", fixed_bytes=2**28, pool_bytes=2**30)
    await until(lambda: cluster.events)
    before = cluster.looks
    await until(lambda: cluster.looks >= before + 3)
    assert cluster.events == [
        (
            "chat-0",
            "MemoryLimitAboveDevice",
            "memoryLimit, 1.25Gi, is above the memory of device cpu1, 1Gi: the engine may have 1Gi of its "
            "pool and can get 768Mi at most; lower memoryLimit, or give the device more memory",
        )
    ]


def will_notice(monkeypatch, agent, *notices):
    """What the agent's next look finds."""
    found = list(notices)

    def look():
        now, found[:] = found[:], []
        return now

    monkeypatch.setattr(agent.node, "notices", look)


async def test_a_kill_that_never_comes_back_keeps_no_other_pod_from_being_evicted(world, pod, folder, monkeypatch):
    agent, cluster, tenant = world
    await until(lambda: (device := cluster.last()) and device.tenants and device.tenants[0].attached)
    real, stuck = PodCgroup(pod.uid, pod.freezer, pod.cpuacct), PodCgroup("stuck", folder, None)
    over, hung = threading.Event(), []

    def kill_or_hang(which):
        if which.uid == "stuck":
            hung.append(which)
            over.wait(60)
        return kill(which)

    monkeypatch.setattr("rowen.node_agent.agent.kill", kill_or_hang)
    monkeypatch.setattr("rowen.node_agent.agent._KILL_SECONDS", 2.0)
    will_notice(monkeypatch, agent, *(Notice(each, kept_memory(5)) for each in (stuck, stuck, real)))
    try:
        assert await asyncio.to_thread(tenant.wait, 20) == -9
        await until(lambda: cluster.events)
        assert [(name, reason) for name, reason, _ in cluster.events] == [("tune-0", "EvictedKeptMemory")]
        assert len(hung) == 1
    finally:
        over.set()


async def test_an_api_server_that_never_answers_an_event_keeps_no_pod_from_being_evicted(world, pod, monkeypatch):
    agent, cluster, tenant = world
    await until(lambda: (device := cluster.last()) and device.tenants and device.tenants[0].attached)
    monkeypatch.setattr("rowen.node_agent.agent._HANDLING_SECONDS", 3.0)
    monkeypatch.setattr(cluster, "event", lambda *_: asyncio.Event().wait())
    real = PodCgroup(pod.uid, pod.freezer, pod.cpuacct)
    told = Notice(real, Tell(Reason.UNACKNOWLEDGED, "it did not stop"))
    will_notice(monkeypatch, agent, told, Notice(real, kept_memory(5)))
    assert await asyncio.to_thread(tenant.wait, 20) == -9


@pytest.mark.parametrize("answer", ["refused", "none"])
async def test_a_shortage_that_cannot_be_told_holds_up_no_report(world, monkeypatch, answer):
    _, cluster, _ = world
    asked = []

    async def event(*_):
        asked.append(True)
        if answer == "none":
            await asyncio.Event().wait()
        raise RefusedError(403, "Forbidden", "no events for agents")

    monkeypatch.setattr(tries, "FIRST_SECONDS", 1e6)
    monkeypatch.setattr("rowen.node_agent.agent._SHORTAGE_PERIOD", 0.1)
    monkeypatch.setattr(cluster, "event", event)
    cluster.pod_list[0] = replace(cluster.pod_list[0], uid="e", fixed_bytes=2**28, pool_bytes=2**30)
    await until(lambda: asked)
    before = cluster.looks
    await until(lambda: cluster.looks >= before + 4)
    assert len(asked) == 1
