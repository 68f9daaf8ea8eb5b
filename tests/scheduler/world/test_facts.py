"""What is read from Kubernetes objects, and how it is joined."""

from dataclasses import replace
from typing import Any

import pytest

from rowen.crds.harvest.busy import BusyCells, encode
from rowen.crds.text.parts import packed
from rowen.kube.timestamps import unix_seconds
from rowen.scheduler.device import DeviceView, TenantView
from rowen.scheduler.model.idle import IdleWindow, idle_level
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.monitor.hearing import Hearing, Listening, Telling, Word
from rowen.scheduler.placement.constraints import Taint
from rowen.scheduler.snapshot import JobView, NodeView
from rowen.scheduler.world.assembly import assemble
from rowen.scheduler.world.facts import (
    ServiceFacts,
    harvest_facts,
    job_view,
    node_facts,
    pod_facts,
    service_facts,
)

STAMP = "2026-01-02T03:04:05Z"


def job(**spec: Any) -> dict[str, Any]:
    meta = {"uid": "u", "namespace": "ns", "name": "j", "creationTimestamp": STAMP, "generation": 3}
    return {"metadata": meta, "spec": {"template": {}, "memory": "1Gi", **spec}}


def harvest(online: dict[str, Any] | None, **device: Any) -> dict[str, Any]:
    body = {
        "id": "cpu0", "type": "cpu", "memoryBytes": 8 * 2**30, "harvestable": True, "gateOpen": True,
        "idleFraction": 0.5, "harvestedFraction": 0.0, "preemptions": 0,
        **({"online": online} if online else {}), **device,
    }  # fmt: skip
    return {"metadata": {"name": "n"}, "status": {"updateTime": STAMP, "devices": [body]}}


def online(service: str | None = "chat") -> dict[str, Any]:
    named = {"service": service} if service else {}
    return {"pod": "ns/chat-0", "attached": True, **named}


def pod(name: str = "chat-0", *, memory: str | None = "2Gi", node: str | None = "n", **meta: Any) -> dict[str, Any]:
    limits = {"memory": memory} if memory else {}
    limits |= meta.pop("limits", {})
    phase = meta.pop("phase", "Running")
    return {
        "metadata": {"namespace": "ns", "name": name, **meta},
        "spec": {"containers": [{"resources": {"limits": limits}}], **({"nodeName": node} if node else {})},
        "status": {"phase": phase},
    }


def one_device(report: dict[str, Any], *pods: dict[str, Any], services: tuple[ServiceFacts, ...]) -> DeviceView:
    facts = [found for found in map(pod_facts, pods) if found]
    node = node_facts({"metadata": {"name": "n"}})
    return assemble([], [harvest_facts(report)], [node], facts, services, Hearing(), {}).nodes["n"].devices[0]


CHAT = ServiceFacts("ns", "chat", harvest=True)
MISSED = "SLO guard: OnlineService ns/chat misses its SLO beside offline work"


def test_a_tenant_is_what_its_node_reports_of_it() -> None:
    told = {"pod": "a/j-1", "attached": False, "tokens": 7, "grantedSeconds": 2.5}
    tenants = [told, {**told, "attached": True}]
    device = one_device(harvest(online(), tenants=tenants), services=(CHAT,))
    assert device.tenants == (TenantView("a", "j-1", 7, 2.5, attached=False), TenantView("a", "j-1", 7, 2.5))


@pytest.mark.parametrize(
    ("reported", "taken"),
    [((-5, -1e308), (0, 0.0)), ((2**63 - 1, 1e308), (2**53, 1e10)), ((2**53, 1e10), (2**53, 1e10))],
)
def test_counters_that_cannot_be_are_cut(reported: tuple[int, float], taken: tuple[int, float]) -> None:
    """The difference of two reports would be no number any more, and end the pass for all jobs."""
    told = {"tokens": reported[0], "grantedSeconds": reported[1], "attached": True}
    tenant = {"pod": {"namespace": "a", "name": "j-1"}, **told}
    device = one_device(harvest(online(), tenants=[tenant]), services=(CHAT,))
    assert device.tenants == (TenantView("a", "j-1", *taken),)


def test_what_the_slo_guard_lets_be_harvested() -> None:
    def told(level: Any, *, harvest_enabled: bool = True) -> tuple[str, str]:
        chat = ServiceFacts("ns", "chat", harvest_enabled, level)
        device = one_device(harvest(online()), services=(chat,))
        return device.refusal, device.restraint

    assert told("Full") == ("", "")
    assert told("Reduced") == ("", f"{MISSED}, one job at a time on each of its devices")
    assert told("Stopped") == (f"{MISSED}, nothing of it is harvested", "")
    off = "OnlineService ns/chat does not let itself be harvested"
    assert told("Stopped", harvest_enabled=False) == (off, "")


@pytest.mark.parametrize(
    ("status", "level"),
    [
        ({}, "Full"),
        ({"harvestGuard": {"level": "Full"}}, "Full"),
        ({"harvestGuard": {"level": "Reduced", "new": 1}}, "Reduced"),
        ({"harvestGuard": {"level": "Stopped"}}, "Stopped"),
        # Of another version.
        ({"harvestGuard": {"level": "Half"}}, "Reduced"),
        ({"harvestGuard": {}}, "Full"),
        ({"harvestGuard": "Stopped"}, "Full"),
        ({"harvestGuard": None}, "Full"),
    ],
)
def test_the_guards_level_is_read_from_the_status(status: dict[str, Any], level: str) -> None:
    raw = {
        "metadata": {"namespace": "ns", "name": "chat"},
        "spec": SERVICE,
        "status": status,
    }
    assert service_facts(raw) == ServiceFacts("ns", "chat", harvest=True, level=level)  # type: ignore[arg-type]
    assert service_facts({**raw, "status": None}) == CHAT


@pytest.mark.parametrize(
    ("report", "services", "refusal"),
    [
        (harvest(online()), (CHAT,), ""),
        (harvest(online()), (), "OnlineService ns/chat is gone"),
        (
            harvest(online()),
            (ServiceFacts("ns", "chat", harvest=False),),
            "OnlineService ns/chat does not let itself be harvested",
        ),
        (harvest(online()), (ServiceFacts("other", "chat", harvest=True),), "OnlineService ns/chat is gone"),
        (harvest(online(None)), (CHAT,), "pod ns/chat-0 carries no label rowen.dev/service"),
        (harvest(online("")), (CHAT,), "pod ns/chat-0 carries no label rowen.dev/service"),
    ],
)
def test_a_device_is_offered_by_its_service(
    report: dict[str, Any], services: tuple[ServiceFacts, ...], refusal: str
) -> None:
    assert one_device(report, pod(labels={"app": "x"}), services=services).refusal == refusal


@pytest.mark.parametrize(
    ("report", "service"), [(harvest(online()), "ns/chat"), (harvest(online(None)), ""), (harvest(None), "")]
)
def test_a_device_has_the_name_of_its_service(report: dict[str, Any], service: str) -> None:
    assert one_device(report, pod(), services=(CHAT,)).service == service


@pytest.mark.parametrize(
    ("pods", "memory"),
    [((pod(),), 2 * 2**30), ((pod(memory=None),), None), ((), None), ((pod(memory="0.5Gi"),), 2**29)],
)
def test_the_online_pods_memory(pods: tuple[dict[str, Any], ...], memory: int | None) -> None:
    assert one_device(harvest(online()), *pods, services=(CHAT,)).online_memory == memory


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1Ki", 1024), ("1000", 1000), ("1.5Gi", 1610612736), ("2G", 2 * 10**9), ("1000m", 1), ("x", None), ("0", 0)],
)
def test_quantities_of_pods(text: str, expected: int | None) -> None:
    found = pod_facts(pod(memory=text))
    assert found is not None
    assert found.memory == expected


POOL = {"name": "ROWEN_POOL_BYTES", "value": "1"}
SHARED = {"requests": {"memory": "2Gi"}, "limits": {"memory": "5Gi", "rowen.dev/online": "1"}}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"resources": SHARED, "env": [POOL]}, 2),
        ({"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "5Gi"}}, "env": [POOL]}, 5),
        ({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, "env": [POOL]}, None),
    ],
)
def test_what_a_container_has_for_itself(container: dict[str, Any], expected: int | None) -> None:
    raw = pod(memory="1Gi")
    raw["spec"]["containers"].append(container)
    found = pod_facts(raw)
    assert found is not None
    assert found.memory == (None if expected is None else (1 + expected) * 2**30)


def seconds(*spans: tuple[int, int]) -> int:
    """The bits of whole seconds of a minute in cells of a sixteenth."""
    return sum(1 << cell for begin, end in spans for cell in range(16 * begin, 16 * end))


def test_a_device_was_busy_in_the_cells_that_its_node_reports() -> None:
    over = {"start": unix_seconds(STAMP) - 60, "cellSeconds": 0.0625, "cells": 960}
    report = harvest(online(), busy=encode(BusyCells(seconds((3, 4)), 960)))
    report["status"]["busyGrid"] = over
    assert one_device(report, pod(), services=(CHAT,)).busy == BusyCells(seconds((3, 4)), 960)


EVERY_OTHER = encode(BusyCells(int("a" * 240, 16), 960))


@pytest.mark.parametrize(
    ("busy", "over"),
    [(EVERY_OTHER, {"cells": 961}), (EVERY_OTHER, None), ("A" * 159 + "=", {}), (None, {})],
    ids=["of another length", "without a grid", "no base64", "absent"],
)
def test_busy_time_that_cannot_be_read_is_not_known_and_leaves_the_rest(
    busy: str | None, over: dict[str, Any] | None
) -> None:
    report = harvest(online(), **({"busy": busy} if busy else {}))
    if over is not None:
        report["status"]["busyGrid"] = {"start": unix_seconds(STAMP) - 60, "cellSeconds": 0.0625, "cells": 960, **over}
    found = one_device(report, pod(), services=(CHAT,))
    assert found.busy is None
    assert (found.idle, found.attached) == (0.5, True)


def test_a_pod_without_node_or_that_has_ended_holds_nothing() -> None:
    slots = {"rowen.dev/harvest": "1"}
    assert pod_facts(pod(node=None)) is None
    live, done = pod_facts(pod("a", limits=slots)), pod_facts(pod("b", limits=slots, phase="Succeeded"))
    assert live is not None
    assert done is not None
    assert [holder.name for holder in assemble([], [], [], [live, done], [], Hearing(), {}).pods] == ["a"]


def test_jobs_memory_is_placed_beside_all_that_the_engine_may_have() -> None:
    raw = pod()
    raw["spec"]["containers"] = [
        {"resources": SHARED, "env": [POOL]},
        {"resources": {"limits": {"memory": "1Gi"}}},
    ]
    assert one_device(harvest(online()), raw, services=(CHAT,)).online_memory == 6 * 2**30


def test_an_engine_on_several_devices_has_equal_parts_of_each_ones_memory() -> None:
    engine = pod(memory="3G", limits={"rowen.dev/online": "2"})
    assert one_device(harvest(online()), engine, services=(CHAT,)).online_memory == 1_500_000_000
    unknown = pod(memory=None, limits={"rowen.dev/online": "2"})
    assert one_device(harvest(online()), unknown, services=(CHAT,)).online_memory is None


def test_a_sidecar_among_the_init_containers_counts() -> None:
    raw = pod(memory="1Gi")
    once = {"resources": {"limits": {"memory": "8Gi"}}}
    raw["spec"]["initContainers"] = [once, {"restartPolicy": "Always", "resources": {"requests": {"memory": "512Mi"}}}]
    found = pod_facts(raw)
    assert found is not None
    assert found.memory == 3 * 2**29


def test_memory_of_a_holder_is_per_device() -> None:
    found = pod_facts(
        pod(
            "a",
            limits={"rowen.dev/harvest": "2"},
            labels={"rowen.dev/job-uid": "u"},
            annotations={"rowen.dev/assignment": "id", "rowen.dev/devices": "cpu0, cpu1"},
        )
    )
    assert found is not None
    holder = assemble([], [], [], [found], [], Hearing(), {}).pods[0]
    assert (holder.memory, holder.slots, holder.job, holder.assignment) == (2**30, 2, "u", "id")
    assert holder.devices == ("cpu0", "cpu1")


@pytest.mark.parametrize(
    ("managed_by", "taken"), [(None, True), ("rowen.dev/operator", True), ("kueue.x-k8s.io/multikueue", False)]
)
def test_jobs_of_other_controllers_are_left_alone(managed_by: str | None, taken: bool) -> None:
    raw = job(**({"managedBy": managed_by} if managed_by else {}))
    assert (job_view(raw) is not None) == taken


def assigned(**lease: str) -> dict[str, Any]:
    """A finished job with its assignment."""
    raw = job(sla={"throughputFraction": 0.2}, priority=7)
    raw["status"] = {
        "assignment": {
            "id": "id", "node": "n", "devices": ["cpu0"], "predictedFraction": 0.5, "tenants": 3, "time": STAMP,
            "lease": {"durationSeconds": 30, **lease},
        },
        "conditions": [{"type": "Finished", "status": "True", "reason": "Done", "lastTransitionTime": STAMP}],
    }  # fmt: skip
    return raw


@pytest.mark.parametrize("lease", [{}, {"renewTime": STAMP}])
def test_a_job_is_read_with_its_assignment(lease: dict[str, str]) -> None:
    found = job_view(assigned(**lease))
    assert found is not None
    assert (found.memory, found.sla, found.priority, found.finished, found.counts_tokens) == (
        2**30,
        0.2,
        7,
        True,
        False,
    )
    assert found.placement is not None
    assert (found.placement.renewed, found.placement.duration) == (unix_seconds(STAMP), 30)
    assert (found.placement.predicted, found.placement.tenants) == (0.5, 3)


def test_workload_classes_differ_by_what_shapes_a_step() -> None:
    tune = {
        "baseModel": {"claimName": "models", "path": "m"},
        "dataset": {"claimName": "d", "path": "d.jsonl"},
        "output": {"claimName": "d", "path": "o"},
    }

    def key(**changed: Any) -> str:
        raw = job(fineTune={**tune, **changed})
        del raw["spec"]["template"]
        found = job_view(raw)
        assert found is not None
        return found.workload

    assert key() == key(epochs=5, seed=3, learningRate=0.1)
    assert len({key(), key(batchSize=8), key(sequenceLength=64), key(lora={"rank": 4})}) == 4
    places = {"uri": "s3://b/m"}, {"uri": "s3://b/other"}, {"uri": "s3://b/m", "secretName": "other"}
    assert len({key(), *(key(baseModel=place) for place in places)}) == 4


def classes(kind: str, **spec: Any) -> str:
    """The class of a job in a namespace of its own."""
    raw = job(**spec)
    del raw["spec"]["template"]
    hub = {"huggingFace": {"repo": "a/b", "revision": "c" * 40}}
    model, rows = ("baseModel", "dataset") if kind == "fineTune" else ("model", "input")
    files = {name: {"claimName": "d", "path": name} for name in ("output", rows)}
    raw["spec"][kind] = {model: hub, **files, **spec.pop(kind, {})}
    found = job_view(raw)
    assert found is not None
    return found.workload


@pytest.mark.parametrize("kind", ["batchInference", "fineTune"])
def test_what_a_profile_says_is_said_of_its_namespace_alone(kind: str) -> None:
    shared, own = classes(kind), classes(kind, profile={"tokensPerSecond": 1e9})
    assert shared.split("|")[1] == f"hf:a/b@{'c' * 40}"
    assert own.split("|")[1] == f"ns/hf:a/b@{'c' * 40}"
    assert own.split("|")[2:] == shared.split("|")[2:]


def test_a_name_takes_the_place_of_the_model_and_leaves_the_shape() -> None:
    named = classes("fineTune", profile={"name": "long"})
    assert named == "FineTune|ns/long|b4,s128,r16,q_proj+v_proj|x1"
    assert named != classes("fineTune", profile={"name": "long"}, fineTune={"batchSize": 8})


def test_a_pod_template_asks_the_same_of_nodes_and_neighbours_as_a_template() -> None:
    selector = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}
    pod = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "nodeSelector": {"zone": "z"},
            "tolerations": [{"key": "burst", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selector]},
            },
            "volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": "cache"}}],
        },
    }
    files = {name: {"claimName": "d", "path": name} for name in ("input", "output")}
    raw = job(batchInference={"model": {"claimName": "d", "path": "m"}, **files}, podTemplate=pod)
    del raw["spec"]["template"]
    typed, whole = job_view(raw), job_view(job(template=pod))
    assert typed is not None
    assert whole is not None
    assert (typed.constraints, typed.labels, typed.spread) == (whole.constraints, whole.labels, whole.spread)
    assert typed.constraints.selector == (("zone", "z"),)
    assert (typed.constraints.terms, typed.constraints.tolerations, typed.spread) != (None, (), ())
    assert (typed.claims, typed.counts_tokens) == (("cache", "d"), True)


@pytest.mark.parametrize("kind", ["template", "batchInference", "fineTune"])
def test_jobs_differ_by_what_they_may_have_of_the_pool(kind: str) -> None:
    model = {"claimName": "models", "path": "m"}
    files = {"output": {"claimName": "d", "path": "o"}}
    parts = {
        "template": {},
        "batchInference": {"model": model, "input": {"claimName": "d", "path": "i"}, **files},
        "fineTune": {"baseModel": model, "dataset": {"claimName": "d", "path": "i"}, **files},
    }

    def view(**memory: str) -> JobView:
        raw = job(**memory)
        del raw["spec"]["template"]
        raw["spec"][kind] = parts[kind]
        found = job_view(raw)
        assert found is not None
        return found

    plain, same = view(), view(memoryLimit="1024Mi")
    small, large = view(memoryLimit="2Gi"), view(memoryLimit="3Gi")
    assert (plain.workload, plain.pool) == (same.workload, same.pool)
    assert [each.memory for each in (plain, same, small, large)] == [2**30] * 4
    assert [each.pool for each in (plain, small, large)] == [0, 2**30, 2 * 2**30]
    assert len({each.workload for each in (plain, small, large)}) == 3
    assert view(memory="2Gi", memoryLimit="3Gi").workload not in {plain.workload, small.workload, large.workload}


SERVICE = {
    "workloadRef": {"kind": "Deployment", "name": "d"},
    "slo": {"ttft": {"target": "1s"}, "tpot": {"target": "1s"}},
}


def service(*, selector: str = "", harvest: bool = True, **meta: str) -> ServiceFacts:
    spec = {**SERVICE, "harvest": {"enabled": harvest}}
    meta = {"namespace": "ns", "name": "s", **meta}
    return service_facts({"metadata": meta, "spec": spec, "status": {"selector": selector}})


def test_a_service_that_is_being_deleted_is_not_harvested() -> None:
    assert service() == ServiceFacts("ns", "s", harvest=True)
    assert service(deletionTimestamp=STAMP) == ServiceFacts("ns", "s", harvest=False)
    assert service(harvest=False) == ServiceFacts("ns", "s", harvest=False)


@pytest.mark.parametrize("selector", ["app=x", "app=x,tier in (a, b)", "tier in (a, b)"])
def test_a_selector_makes_no_pod_a_services(selector: str) -> None:
    adopter = service(selector=selector)
    found = one_device(harvest(online(None)), pod(labels={"app": "x"}), services=(adopter,))
    assert found.refusal == "pod ns/chat-0 carries no label rowen.dev/service"


def test_a_node_is_read_with_its_slots() -> None:
    raw: dict[str, Any] = {
        "metadata": {"name": "n", "labels": {"zone": "a"}},
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": "a", "value": "b", "effect": "NoSchedule"},
                {"key": "c", "effect": "NoExecute", "timeAdded": STAMP},
            ],
        },
        "status": {"allocatable": {"rowen.dev/harvest": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    found = node_facts(raw)
    assert (found.ready, found.schedulable, found.slots) == (True, False, 4)
    assert found.labels == {"zone": "a"}
    assert found.taints == (Taint("a", "b", "NoSchedule"), Taint("c", "", "NoExecute"))
    bare = node_facts({"metadata": {"name": "n"}, "status": {"conditions": []}})
    assert (bare.ready, bare.schedulable, bare.slots, bare.labels, bare.taints) == (False, True, 0, {}, ())
    going = node_facts({"metadata": {"name": "n", "deletionTimestamp": STAMP}})
    assert not going.schedulable


@pytest.mark.parametrize("reports", [[], [harvest(None)]])
def test_labels_and_taints_reach_the_node_with_or_without_a_report(reports: list[dict[str, Any]]) -> None:
    raw = {
        "metadata": {"name": "n", "labels": {"zone": "a"}},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
    }
    found = assemble([], map(harvest_facts, reports), [node_facts(raw)], [], [], Hearing(), {}).nodes["n"]
    assert found.labels == {"zone": "a"}
    assert found.taints == (Taint("a", "", "NoSchedule"),)
    assert len(found.devices) == len(reports)


def test_a_heartbeat_leaves_what_was_worked_out_of_the_report() -> None:
    report, nodes = harvest_facts(harvest(None)), [node_facts({"metadata": {"name": "n"}})]
    first, second = (Hearing({"n": Word(stamp, stamp, 8000.0)}) for stamp in (9000.0, 9005.0))
    old = assemble([], [report], nodes, [], [], first, {}).nodes["n"]
    known = old.figures, old.lockstep
    found = assemble([], [report], nodes, [], [], second, {"n": old}).nodes["n"]
    assert (old.heard, found.heard) == (9000.0, 9005.0)
    assert found.figures is known[0]
    assert found.lockstep is known[1]


def test_a_report_is_packed_once_and_before_a_pass_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[str] = []
    real = DeviceView.pack
    monkeypatch.setattr(DeviceView, "pack", lambda view: (packed.append(view.id), real(view))[1])
    nodes, raw = [node_facts({"metadata": {"name": "n"}})], harvest(None)
    views: dict[str, NodeView] = {}
    for stamp in (9000.0, 9000.0, 9005.0):
        hearing = Hearing({"n": Word(stamp, stamp, 8000.0)})
        views = dict(assemble([], [harvest_facts(raw)], nodes, [], [], hearing, views).nodes)
    assert packed == ["cpu0"]
    raw["status"]["devices"][0]["idleFraction"] = 0.25
    views = dict(assemble([], [harvest_facts(raw)], nodes, [], [], hearing, views).nodes)
    assert packed == ["cpu0"] * 2
    assert views["n"].figures == views["n"].devices[0].pack()
    assert packed == ["cpu0"] * 3


def test_a_node_is_as_old_as_it_was_heard_and_not_as_its_report_says() -> None:
    told = {"n": Telling(unix_seconds(STAMP), 8500.0)}
    hearing = Hearing({"n": Word(9990.0, 9000.0, 8000.0)}, told, Listening(7000.0, 9010.0))
    nodes = [node_facts({"metadata": {"name": name}}) for name in ("n", "without-report")]
    found = assemble([], [harvest_facts(harvest(None))], nodes, [], [], hearing, {})
    assert found.listening == Listening(7000.0, 9010.0)
    assert (found.nodes["n"].heard, found.nodes["n"].steady) == (9000.0, 8000.0)
    assert (found.nodes["n"].told, found.nodes["n"].reported) == (8500.0, unix_seconds(STAMP))
    assert found.nodes["n"].age(9004.0) == 4.0
    assert found.nodes["without-report"].heard is None


@pytest.mark.parametrize(
    ("word", "since", "expected"),
    [(8000.0, 7000.0, 8000.0), (None, 7000.0, 7000.0), (None, 99e9, unix_seconds(STAMP))],
)
def test_what_is_remembered_of_a_node_that_is_gone_renews_its_assignments(
    word: float | None, since: float, expected: float
) -> None:
    job = job_view(assigned())
    assert job is not None
    words = {} if word is None else {"n": Word(1.0, word, word)}
    found = assemble([job], [], [], [], [], Hearing(words, {}, Listening(since, since)), {}).jobs[job.uid]
    assert found.placement is not None
    assert found.placement.renewed == expected
    nodes = [node_facts({"metadata": {"name": "n"}})]
    there = assemble([job], [], nodes, [], [], Hearing({"n": Word(1.0, 9.0, 9.0)}), {}).jobs[job.uid]
    assert there is job


def test_a_node_with_heartbeats_and_no_report_yet_offers_nothing() -> None:
    nodes = [node_facts({"metadata": {"name": "n"}})]
    found = assemble([], [], nodes, [], [], Hearing({"n": Word(1.0, 9000.0, 8000.0)}), {}).nodes["n"]
    assert (found.heard, found.told, found.devices) == (9000.0, None, ())


def test_a_device_is_foreseen_by_all_windows_of_its_report() -> None:
    report = harvest(online(), idles=["0.9/3600s"])
    view = one_device(report, services=(CHAT,))
    assert view.seen_idle == 0.5
    assert view.idles == (IdleWindow(3600.0, 0.9),)
    level = idle_level(IdleWindow(60.0, 0.5), 0, view.idles)
    assert (view.idle, view.deviation) == (level.fraction, level.deviation)
    assert 0.85 < view.idle < 0.9
    plain = one_device(harvest(online()), services=(CHAT,))
    assert (plain.idle, plain.seen_idle) == (0.5, 0.5)
    assert plain.deviation == idle_level(IdleWindow(60.0, 0.5), 0).deviation


@pytest.mark.parametrize(("covered", "seconds"), [(6.0, 6.0), (0.0, 1.0), (90.0, 60.0)])
def test_a_window_is_as_long_as_its_engine_was_there(covered: float, seconds: float) -> None:
    """Three bursts in six seconds are 1,800 in an hour."""
    over = {"start": unix_seconds(STAMP) - 60, "cellSeconds": 0.0625, "cells": 960}
    bursts = encode(BusyCells(0b10101 << 900, 960))
    report = harvest(online(), coveredSeconds=covered, busy=bursts, idles=["0.9/3600s"])
    report["status"]["busyGrid"] = over
    view = one_device(report, services=(CHAT,))
    level = idle_level(IdleWindow(seconds, 0.5), 3, view.idles)
    assert (view.idle, view.deviation) == (level.fraction, level.deviation)


def test_a_jobs_memory_of_the_pool_and_its_reported_memory_are_read() -> None:
    view = job_view(job(memoryLimit="3Gi", profile={"tokensPerSecond": 50, "name": "long"}))
    assert view is not None
    assert view.need == linear_need(2**31, doubt=0.5)
    assert view.solo == 50.0
    assert view.workload == "Template|ns/long|m1Gi-3Gi|x1"
    parts = packed([3 * 2**30, 0, 2**30], 8 * 2**30)
    found = one_device(harvest(online(), available=parts), services=(CHAT,)).available
    assert found == pytest.approx((0, 2**30, 3 * 2**30), abs=2**17)
    assert one_device(harvest(online()), services=(CHAT,)).available == ()


@pytest.mark.parametrize("idle", [0.0, 0.3, 1.0])
def test_a_device_is_as_idle_as_it_is_reported(idle: float) -> None:
    assert one_device(harvest(online(), idleFraction=idle), services=(CHAT,)).idle == idle


def test_a_node_of_which_nothing_has_changed_keeps_its_view() -> None:
    nodes = [node_facts({"metadata": {"name": name}}) for name in "ab"]
    before = assemble([], [], nodes, [], [], Hearing(), {}).nodes
    changed = [nodes[0], replace(nodes[1], slots=7)]
    after = assemble([], [], changed, [], [], Hearing(), before).nodes
    assert after["a"] is before["a"]
    assert (before["b"].slots, after["b"].slots) == (0, 7)


@pytest.mark.parametrize(("meta", "gone_by"), [({}, None), ({"deletionTimestamp": "1970-01-01T00:01:40Z"}, 100.0)])
def test_a_pod_that_is_being_deleted_says_by_when(meta: dict[str, Any], gone_by: float | None) -> None:
    found = pod_facts(pod(**meta))
    assert found is not None
    assert found.gone_by == gone_by
