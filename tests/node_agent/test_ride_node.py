"""Seats of a node: who gets which, who may come in, and what is told of them."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from gate import rig
from gate.pod import Pod
from gate.rig import until
from node_agent.riding import Engine, Job, Process, is_quiet, received
from structlog.testing import capture_logs

from rowen.crds.names import HARVEST_RESOURCE, ONLINE_RESOURCE, RIDE_RESOURCE
from rowen.crds.ride.messages import MOST_SEATS, JobHello, Welcome
from rowen.node_agent.config import CpuDeviceConfig, Settings
from rowen.node_agent.devices.allocation import Allocation
from rowen.node_agent.kubelet.plugin import AllocationRefused
from rowen.node_agent.kubelet.pods import PodView, placements, pod_view, preferred_slots
from rowen.node_agent.node import Node
from rowen.node_agent.report.status import node_status
from rowen.node_agent.ride import hall

CPU = str(min(os.sched_getaffinity(0)))
OTHER = str(max(os.sched_getaffinity(0)))
CHAT = PodView("shop", "chat-0", service="chat")
JOB = JobHello().model_dump_json()


@pytest.fixture
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        configs = [CpuDeviceConfig(id=name, cpus=cpu, memory="1Gi") for name, cpu in (("a", CPU), ("b", OTHER))]
        node = Node(Settings(node="n", run_directory=Path(folder) / "run"), configs)
        yield node
        node.close()


@pytest.fixture
def pod() -> Iterator[Pod]:
    pod = Pod()
    yield pod
    pod.remove()


def socket_of(allocation: Allocation, variable: str) -> Path:
    """Where the container's path leads on the node."""
    host = {mount.container_path: Path(mount.host_path) for mount in allocation.mounts}
    path = Path(allocation.environment[variable])
    return host[str(path.parent)] / path.name


def engine_on(node: Node, device: str) -> Engine:
    engine = Engine(socket_of(node.allocate_online([device]), "ROWEN_ENGINE_RIDE_SOCKET"))
    until(lambda: node.rides.engine(device) is not None)
    return engine


def seat(node: Node, seat_id: str) -> Path:
    return socket_of(node.rides.allocate([seat_id]), "ROWEN_RIDE_SOCKET")


def test_a_container_that_rides_gets_the_way_to_its_engine_and_nothing_else(node: Node) -> None:
    allocation = node.rides.allocate(["a-3"])
    assert allocation.environment == {"ROWEN_RIDE_SOCKET": "/run/rowen/ride/ride.sock"}
    assert [mount.container_path for mount in allocation.mounts] == ["/run/rowen/ride"]
    assert seat(node, "a-3").is_socket()
    assert seat(node, "a-3").parent.name == "seat-3"


def test_an_engine_on_one_device_may_take_riders_in(node: Node) -> None:
    one = node.allocate_online(["b"])
    assert one.environment["ROWEN_ENGINE_RIDE_SOCKET"] == "/run/rowen/engine-0/ride.sock"
    assert socket_of(one, "ROWEN_ENGINE_RIDE_SOCKET").is_socket()
    assert "ROWEN_ENGINE_RIDE_SOCKET" not in node.allocate_online(["a", "b"]).environment


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "one seat, not 0"),
        (["a-0", "b-0"], "one seat, not 2"),
        (["a-8"], "no seat of this node: a-8"),
        (["c-0"], "no seat of this node: c-0"),
    ],
)
def test_seats_that_it_cannot_have(node: Node, ids: list[str], message: str) -> None:
    with pytest.raises(AllocationRefused, match=message):
        node.rides.allocate(ids)


def test_a_device_with_a_fault_has_no_seats(node: Node) -> None:
    assert node.rides.seat_ids() == {f"{device}-{number}": True for device in "ab" for number in range(8)}
    node.note({"a": "it fell"})
    assert node.rides.seat_ids() == {f"{device}-{number}": device == "b" for device in "ab" for number in range(8)}
    with pytest.raises(AllocationRefused, match="device a cannot be used"):
        node.rides.allocate(["a-0"])


def test_a_job_of_no_pod_gets_no_engine(node: Node) -> None:
    engine = engine_on(node, "a")
    assert Job(seat(node, "a-0")).welcome.reason == "the process is in no pod's cgroup"
    engine.line.close()


def test_a_job_rides_and_the_report_tells_of_it(node: Node, pod: Pod) -> None:
    engine = engine_on(node, "a")
    rider = PodView("lab", "tune-0", job="tune", uid=pod.uid, rides=True)
    holders = {ONLINE_RESOURCE: {"a": CHAT.key}, RIDE_RESOURCE: {"a-2": rider.key}}
    node.place(holders, [CHAT, rider])
    worker = Process(seat(node, "a-2"), JOB, pod)
    try:
        assert "reason" not in worker.answer
        guest, pair = engine.guest()
        assert guest.pod == pod.uid
        engine.tell(steps=10, seconds=0.5)
        until(lambda: node.rides.engine("a").sums is not None)
        node.sample(60)
        engine.tell(steps=30, seconds=1.0, riding_steps=5, solo_tokens=800, riding_seconds=0.5, added_seconds=0.25)
        until(lambda: node.rides.engine("a").sums.steps == 30)
        node.sample(60)
        first, second = node_status(node.snapshots(), now=1.0, window=60.0, unix_offset=0.0).devices
        assert (first.co_serving.seats, first.co_serving.riding_fraction) == (8, 0.25)
        assert first.co_serving.solo_tokens_per_second > 0
        assert first.steps.seconds == 0.025
        [tenant] = first.tenants
        assert (tenant.pod.name, tenant.job, tenant.mode, tenant.attached) == ("tune-0", "tune", "CoServe", True)
        assert tenant.granted_seconds > 0
        assert (second.co_serving, second.tenants) == (None, [])
        value = node.metrics.registry.get_sample_value
        labels = {"node": "n", "device": "a"}
        assert (value("rowen_riders", labels), value("rowen_ride_seats", labels)) == (1, 8)
        assert (value("rowen_steps_total", labels), value("rowen_riding_steps_total", labels)) == (20, 5)
        seconds = [value(f"rowen_{of}_seconds_total", labels) for of in ("step", "riding", "riding_added")]
        assert seconds == [0.5, 0.5, 0.25]
        assert value("rowen_ride_tokens_total", {**labels, "kind": "solo"}) == 800
        assert value("rowen_ride_ended", labels) == 0
        pair.close()
        engine.line.close()
        until(lambda: node.rides.engine("a") is None)
        engine = engine_on(node, "a")
        node.sample(60)
        anew, _ = node_status(node.snapshots(), now=1.0, window=60.0, unix_offset=0.0).devices
        assert (anew.steps, anew.co_serving.riding_fraction) == (None, 0.0)
    finally:
        worker.end()
        engine.line.close()


def test_it_rides_in_the_engine_that_was_chosen_whatever_seat_it_has(node: Node, pod: Pod) -> None:
    """Where two pods wait, the kubelet may ask for the one while the seat is meant for the other."""
    engine = engine_on(node, "b")
    rider = PodView("shop", "tune-0", uid=pod.uid, devices=("b",), rides=True)
    node.rides.known_pods = lambda: [rider]
    node.place({ONLINE_RESOURCE: {"b": CHAT.key}}, [CHAT])
    worker = Process(seat(node, "a-0"), JOB, pod)
    try:
        assert "reason" not in worker.answer
        assert engine.guest()[0].pod == pod.uid
        node.place({ONLINE_RESOURCE: {"b": CHAT.key}, RIDE_RESOURCE: {"a-0": rider.key}}, [CHAT, rider])
        first, second = node_status(node.snapshots(), now=1.0, window=60.0, unix_offset=0.0).devices
        assert ([each.pod.name for each in first.tenants], [each.attached for each in second.tenants]) == ([], [True])
    finally:
        worker.end()
        engine.line.close()


def test_a_job_rides_in_an_engine_of_its_own_namespace_once_both_are_known(node: Node, pod: Pod) -> None:
    engine = engine_on(node, "a")
    known: list[PodView] = []
    node.rides.known_pods = lambda: known
    rider = PodView("lab", "tune-0", uid=pod.uid, rides=True)

    def answer() -> str:
        worker = Process(seat(node, "a-0"), JOB, pod)
        worker.end()
        return worker.answer

    try:
        assert "the process's pod is not known yet" in answer()
        known.append(CHAT)
        assert "the process's pod is not known yet" in answer()
        known.append(rider)
        assert "the engine of device a is not known yet" in answer()
        node.place({ONLINE_RESOURCE: {"a": CHAT.key}}, [CHAT])
        with capture_logs() as logs:
            refused = answer()
        assert "the engine of device a is not of the job's namespace" in refused
        # Whose it is the agent's log alone says.
        assert "shop" not in refused
        assert [(log["pod"], log["engine"]) for log in logs] == [("lab/tune-0", "shop/chat-0")]
        known[1] = PodView("shop", "tune-0", uid=pod.uid, rides=True)
        assert "reason" not in answer()
    finally:
        engine.line.close()


def test_an_engine_that_outlives_its_pod_gets_no_job_of_the_next_ones_namespace(node: Node, pod: Pod) -> None:
    """The kubelet gives a device away that was a pod's which was deleted by force, though its process still ends."""
    engine = engine_on(node, "a")
    chat = PodView("shop", "chat-0", uid="3b2f0c9e-0000-4000-8000-000000000000")
    rider = PodView("shop", "tune-0", uid=pod.uid, rides=True)
    node.rides.known_pods = lambda: [chat, rider]
    node.place({ONLINE_RESOURCE: {"a": chat.key}}, [chat, rider])
    worker = Process(seat(node, "a-0"), JOB, pod)
    try:
        assert "the engine of device a is one of another pod" in worker.answer
    finally:
        worker.end()
        engine.line.close()


def test_an_engine_of_another_pod_takes_nobody_in(node: Node) -> None:
    chat = PodView("shop", "chat-0", uid="3b2f0c9e-0000-4000-8000-000000000000")
    node.place({ONLINE_RESOURCE: {"a": chat.key}}, [chat])
    line = Engine(socket_of(node.allocate_online(["a"]), "ROWEN_ENGINE_RIDE_SOCKET")).line
    reason = Welcome.model_validate_json(received(line)[0]).reason
    assert reason == "device a is known as another pod's, and not this process's"


def test_steps_of_an_engine_that_takes_nobody_in_are_told_too(node: Node) -> None:
    engine = rig.Engine(socket_of(node.allocate_online(["a"]), "ROWEN_ENGINE_SOCKET"))
    try:
        until(lambda: node.devices["a"].gate.counts().online_processes == 1)
        node.sample(60)
        engine.call("composition", 20_000_000, 3, 0)
        engine.call("composition", 40_000_000, 2, 9)
        node.sample(60)
        first, _ = node_status(node.snapshots(), now=1.0, window=60.0, unix_offset=0.0).devices
        assert (first.steps.seconds, first.steps.decode_rows, first.steps.prefill_tokens) == (0.03, 2.5, 4.5)
        assert first.co_serving is None
        value = node.metrics.registry.get_sample_value
        assert value("rowen_step_tokens_total", {"node": "n", "device": "a", "kind": "prefill"}) == 9
    finally:
        engine.kill()


def test_requests_of_an_engine_tell_that_somebody_rides(node: Node, pod: Pod) -> None:
    attached = rig.Engine(socket_of(node.allocate_online(["a"]), "ROWEN_ENGINE_SOCKET"))
    worker = Process(seat(node, "a-0"), JobHello(pair=False).model_dump_json(), pod)
    try:
        until(lambda: node.devices["a"].gate.counts().online_processes == 1)
        node.sample(60)
        assert attached.call("tenants") == 0
        engine = engine_on(node, "a")
        until(lambda: node.rides.joined("a") == 1)
        node.sample(60)
        assert attached.call("tenants") == 1
        engine.line.close()
        until(lambda: node.rides.joined("a") == 0)
        node.sample(60)
        assert attached.call("tenants") == 0
    finally:
        worker.end()
        attached.kill()


def test_a_guest_of_a_pod_that_has_ended_is_to_go(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds its end of the pair, and whether or not this agent has seen its process."""
    monkeypatch.setattr(hall, "_LOOK_SECONDS", 0.0)
    known: list[PodView] = []
    node.rides.known_pods = lambda: known
    engine = engine_on(node, "a")
    rider = PodView("shop", "tune-0", uid="3b2f0c9e-0000-4000-8000-000000000000", rides=True)

    def pass_rounds() -> None:
        for steps in range(1, 5):
            engine.tell(guests=(rider.uid,), steps=steps)
            until(lambda steps=steps: (sums := node.rides.engine("a").sums) is not None and sums.steps == steps)

    # Until the API server has told of any pod, none is known to have gone.
    pass_rounds()
    known[:] = [CHAT, rider]
    pass_rounds()
    assert is_quiet(engine.line)
    known[1] = replace(rider, phase="Failed")
    assert engine.leaver() == rider.uid
    engine.tell()
    until(lambda: node.rides.joined("a") == 0)
    engine.line.close()


def test_who_rides_has_no_memory_of_the_device() -> None:
    rider = PodView("lab", "tune-0", fixed_bytes=2**30)
    found = placements("a", {RIDE_RESOURCE: {"a-1": rider.key, "b-0": ("lab", "x")}}, [rider])
    assert (found.riders, found.pods) == ((("a-1", rider),), [])
    ended = PodView("lab", "tune-0", phase="Succeeded")
    assert placements("a", {RIDE_RESOURCE: {"a-1": rider.key}}, [ended]).riders == ()


def test_a_device_has_no_more_riders_than_seats_whatever_pods_say(node: Node) -> None:
    """The report has room for no more, and those who ride come first."""
    strangers = [PodView("lab", f"x-{number}", devices=("a",), uid=f"x-{number}", rides=True) for number in range(17)]
    late = [PodView("shop", f"y-{number}", devices=("a",), created="2", uid=f"y-{number}") for number in range(8)]
    rides = [PodView("shop", f"t-{number}", job="t", devices=("a",), created=f"{9 - number}") for number in range(7)]
    pods = [*strangers, *late, *rides]
    seats = {f"b-{number}": pod.key for number, pod in enumerate(pods)}
    found = placements("a", {ONLINE_RESOURCE: {"a": CHAT.key}, RIDE_RESOURCE: seats}, [CHAT, *pods])
    assert {pod.name for _, pod in found.riders} == {*(pod.name for pod in rides), "y-0"}
    assert len(placements("a", {RIDE_RESOURCE: seats}, pods).riders) == MOST_SEATS
    node.place({RIDE_RESOURCE: seats}, pods)
    first, _ = node_status(node.snapshots(), now=1.0, window=60.0, unix_offset=0.0).devices
    assert len(first.tenants) == MOST_SEATS


@pytest.mark.parametrize(("resource", "rides"), [(RIDE_RESOURCE, True), (HARVEST_RESOURCE, False)])
def test_a_pod_rides_by_what_it_asks_for(resource: str, rides: bool) -> None:
    container = {"name": "worker", "resources": {"limits": {resource: "1"}}}
    pod = {"metadata": {"namespace": "lab", "name": "a"}, "spec": {"containers": [{"name": "side"}, container]}}
    assert pod_view(pod).rides is rides


def test_a_seat_is_preferred_for_a_pod_that_waits_for_one() -> None:
    pods = [
        PodView("lab", name, phase="Pending", created=created, devices=(device,), rides=rides)
        for name, created, device, rides in (("gated", "1", "a", False), ("riding", "2", "b", True))
    ]
    ids = ["a-0", "b-0"]
    assert preferred_slots(ids, [], 1, pods, ride=True) == ["b-0"]
    assert preferred_slots(ids, [], 1, pods) == ["a-0"]
