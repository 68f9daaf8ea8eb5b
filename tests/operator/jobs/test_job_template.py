"""What a template may say, and how its tenant gets the gate library in front of its own preloads."""

from typing import Any

import pytest
from operator_builders import NOW, TEMPLATE, job, placed, running

from rowen.operator.jobs.pod import job_pod
from rowen.operator.jobs.policy import decide
from rowen.operator.jobs.snapshot import JobSnapshot

GATE = "/run/rowen/librowen.so"
JEMALLOC = "/usr/lib/libjemalloc.so.2"
RESERVED = [
    "ROWEN_LIBRARY",
    "ROWEN_ENGINE_SOCKET",
    "ROWEN_TENANT_SOCKETS",
    "ROWEN_POOL_BYTES",
    "ROWEN_ENGINE_RIDE_SOCKET",
    "ROWEN_RIDE_SOCKET",
    "ROWEN_ENGINE_URL",
    "ROWEN_ENGINE_POD",
]


def template(container: Any, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [container], **spec}}


def container(*env: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {"name": "mine", "image": "busybox", "env": list(env), **values}


def preload(value: str) -> dict[str, Any]:
    return {"name": "LD_PRELOAD", "value": value}


def environment(first: dict[str, Any]) -> Any:
    (child,) = decide(job({"template": template(first)}, placed()), NOW).children
    return child["spec"]["containers"][0].get("env")


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        (JEMALLOC, f"{GATE}:{JEMALLOC}"),
        (f"{JEMALLOC} /opt/b.so", f"{GATE}:{JEMALLOC}:/opt/b.so"),
        ("$(ALLOCATOR)/lib.so", f"{GATE}:$(ALLOCATOR)/lib.so"),
        ("", GATE),
        (GATE, GATE),
        (f"{GATE}:{JEMALLOC}", f"{GATE}:{JEMALLOC}"),
        (f"{JEMALLOC}:{GATE}", f"{GATE}:{JEMALLOC}"),
        (f" {JEMALLOC}  {GATE}:/opt/b.so:{GATE}", f"{GATE}:{JEMALLOC}:/opt/b.so"),
        (f"{GATE}.1", f"{GATE}:{GATE}.1"),
    ],
)
def test_a_preload_of_the_tenants_own_follows_the_gate_library(own: str, wanted: str) -> None:
    before, after = {"name": "ALLOCATOR", "value": "/opt"}, {"name": "OTHER", "valueFrom": {"fieldRef": {}}}
    assert environment(container(before, preload(own), after)) == [before, preload(wanted), after]


def test_of_several_preloads_each_has_the_gate_library() -> None:
    """The last one counts."""
    assert environment(container(preload("/a.so"), preload("/b.so"))) == [
        preload(f"{GATE}:/a.so"),
        preload(f"{GATE}:/b.so"),
    ]


def test_a_preload_without_a_value_is_the_gate_library() -> None:
    assert environment(container({"name": "LD_PRELOAD"})) == [preload(GATE)]


def test_a_source_that_could_bring_a_preload_does_not() -> None:
    source = [{"configMapRef": {"name": "settings"}}]
    assert environment(container(envFrom=source)) == [preload(GATE)]
    assert environment(container(preload(JEMALLOC), envFrom=source)) == [preload(f"{GATE}:{JEMALLOC}")]


@pytest.mark.parametrize("env", [{}, {"env": None}, {"env": [], "envFrom": []}])
def test_nothing_is_added_where_nothing_is_preloaded(env: dict[str, Any]) -> None:
    """The device plugin does it."""
    assert not environment({"name": "mine", **env})


def test_other_containers_are_left_alone() -> None:
    side = container(preload(JEMALLOC), {"name": "LD_PRELOAD", "valueFrom": {}}, resources={"limits": {"cpu": "1"}})
    source = {**TEMPLATE["spec"], "initContainers": [side]}
    source["containers"] = [*source["containers"], side]
    snapshot = job({"template": {"spec": source}}, placed())
    assert snapshot.assignment is not None
    spec = job_pod(snapshot, snapshot.assignment, 1)["spec"]
    assert (spec["initContainers"], spec["containers"][1]) == ([side], side)
    assert decide(snapshot, NOW).children


@pytest.mark.parametrize("value", [None, {}, {"limits": None}, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}])
def test_resources_are_kept_and_the_device_is_added(value: Any) -> None:
    snapshot = job({"template": template({"name": "mine", "resources": value}), "memory": "1Gi"}, placed())
    assert snapshot.assignment is not None
    resources = job_pod(snapshot, snapshot.assignment, 1)["spec"]["containers"][0]["resources"]
    limits = (value or {}).get("limits") or {}
    wanted = {"memory": str(1 << 30), "rowen.dev/harvest": "1"}
    assert resources == {**(value or {}), "limits": {**limits, **wanted}}


def test_a_memory_limit_of_the_templates_own_stays_and_its_devices_are_the_jobs() -> None:
    limits = {"memory": "3Gi", "rowen.dev/harvest": "9"}
    snapshot = job({"template": template({"resources": {"limits": limits}}), "devices": 2}, placed())
    assert snapshot.assignment is not None
    found = job_pod(snapshot, snapshot.assignment, 1)["spec"]["containers"][0]["resources"]["limits"]
    assert found == {"memory": "3Gi", "rowen.dev/harvest": "2"}
    assert decide(snapshot, NOW).children


def finished(snapshot: JobSnapshot) -> tuple[str, str, str]:
    decision = decide(snapshot, NOW)
    assert decision.status is not None
    assert not decision.children
    entry = next(entry for entry in decision.status["conditions"] if entry["type"] == "Finished")
    return entry["status"], entry["reason"], entry["message"]


@pytest.mark.parametrize("name", RESERVED)
def test_what_rowen_sets_is_refused(name: str) -> None:
    own = container({"name": "MINE", "value": "1"}, {"name": name, "value": "x"})
    status, reason, message = finished(job({"template": template(own)}, placed()))
    assert (status, reason) == ("True", "InvalidTemplate")
    assert message.startswith(f"template.spec.containers[0].env[1]: {name} is set by Rowen")


def beside(other: dict[str, Any], kind: str) -> dict[str, Any]:
    """A template with another container, which is the second of its kind."""
    spec: dict[str, Any] = {"containers": [{"name": "mine"}], "initContainers": [{"name": "first"}]}
    spec[kind] = [*spec[kind], other]
    return {"spec": spec}


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("amounts", ["limits", "requests"])
@pytest.mark.parametrize("resource", ["rowen.dev/harvest", "rowen.dev/online", "rowen.dev/ride"])
def test_a_device_for_another_container_is_refused(kind: str, amounts: str, resource: str) -> None:
    other = {"name": "side", "resources": {amounts: {"cpu": "1", resource: "1"}}}
    status, reason, message = finished(job({"template": beside(other, kind)}, placed()))
    assert (status, reason) == ("True", "InvalidTemplate")
    assert message.startswith(f"template.spec.{kind}[1].resources.{amounts}: {resource} must not be asked for")


@pytest.mark.parametrize("amounts", ["limits", "requests"])
def test_an_engines_device_for_the_tenant_is_refused(amounts: str) -> None:
    own = container(resources={amounts: {"rowen.dev/online": "1"}})
    status, reason, message = finished(job({"template": template(own)}, placed()))
    assert (status, reason) == ("True", "InvalidTemplate")
    assert message.startswith(f"template.spec.containers[0].resources.{amounts}: rowen.dev/online must not")


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("name", RESERVED)
def test_what_rowen_sets_is_refused_in_every_container(kind: str, name: str) -> None:
    other = container({"name": "MINE", "value": "1"}, {"name": name, "value": "x"})
    status, reason, message = finished(job({"template": beside(other, kind)}, placed()))
    assert (status, reason) == ("True", "InvalidTemplate")
    assert message.startswith(f"template.spec.{kind}[1].env[1]: {name} is set by Rowen")


@pytest.mark.parametrize("amounts", ["limits", "requests"])
def test_memory_of_the_templates_own_beside_a_limit_is_refused(amounts: str) -> None:
    own = template(container(resources={amounts: {"cpu": "1", "memory": "1Gi"}}))
    status, reason, message = finished(job({"template": own, "memoryLimit": "5Gi"}, placed()))
    assert (status, reason) == ("True", "InvalidTemplate")
    assert message.startswith(f"template.spec.containers[0].resources.{amounts}: memory must not be set beside spec.")
    assert decide(job({"template": own, "memoryLimit": "4Gi"}, placed()), NOW).children


def test_memory_of_another_container_beside_a_limit_is_its_own() -> None:
    other = beside({"name": "side", "resources": {"limits": {"memory": "1Gi"}}}, "containers")
    assert decide(job({"template": other, "memoryLimit": "5Gi"}, placed()), NOW).children


def test_a_preload_that_nobody_can_see_is_refused() -> None:
    secret = {"name": "LD_PRELOAD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    status, reason, message = finished(job({"template": template(container(secret))}))
    assert (status, reason) == ("True", "InvalidTemplate")
    assert message.startswith("template.spec.containers[0].env[0].valueFrom: LD_PRELOAD must be a plain value")


_TERMS = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": ["x"]}}}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (template(container({"value": "x"})), "template.spec.containers[0].env[0].name: "),
        (template(container({"name": "N", "value": 1})), "template.spec.containers[0].env[0].value: "),
        (template({"env": {}}), "template.spec.containers[0].env: "),
        (template({"resources": "much"}), "template.spec.containers[0].resources: "),
        (template({"resources": {"limits": []}}), "template.spec.containers[0].resources.limits: "),
        (template({}, initContainers=[{"env": {}}]), "template.spec.initContainers[0].env: "),
        (template("mine"), "template.spec.containers[0]: "),
        (template({}, affinity=_TERMS), "template.spec.affinity.nodeAffinity."),
        (template({}) | {"metadata": {"labels": []}}, "template.metadata.labels: "),
        (template({}) | {"metadata": {"annotations": "a"}}, "template.metadata.annotations: "),
        ({"spec": {"containers": []}}, "template.spec.containers: "),
    ],
)
def test_a_template_that_cannot_be_read_names_the_field(wrong: dict[str, Any], field: str) -> None:
    status, reason, message = finished(job({"template": wrong}, placed()))
    assert (status, reason) == ("True", "InvalidTemplate")
    assert message.startswith(field)


@pytest.mark.parametrize(
    "odd",
    [
        template({"name": "mine", "env": None, "resources": None}, affinity=None),
        template({}, affinity={"nodeAffinity": None}) | {"metadata": None},
        template({}, affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}),
        template({}) | {"metadata": {"labels": None, "annotations": None}},
    ],
)
def test_an_empty_field_is_none(odd: dict[str, Any]) -> None:
    assert decide(job({"template": odd}, placed()), NOW).children


def test_a_pod_that_runs_ungated_is_ended() -> None:
    own = container({"name": "LD_PRELOAD", "valueFrom": {}})
    decision = decide(job({"template": template(own)}, placed(), pods=(running(),)), NOW)
    assert [removal.pod for removal in decision.removals] == ["job-1"]
