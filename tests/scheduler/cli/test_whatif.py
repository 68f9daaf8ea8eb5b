"""`kubectl rowen whatif`, from a manifest to the scheduler's answer through a real API server."""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path

import pytest
import yaml
from accounts import account, allow, bind, rule, token
from apiserver import ApiServer, free_port
from manifests import apply, apply_status
from rich.console import Console
from scheduler.cli.commands import failed, invoke
from scheduler.stage import Clock, Stage
from scheduler.test_process import alive, grant, settings

from rowen.kube.client import Client
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import OFFLINE_JOBS
from rowen.kube.objects import list_all
from rowen.scheduler.cli.explanation import show_answer

JOB = """
apiVersion: rowen.dev/v1alpha1
kind: OfflineJob
metadata:
  name: new
spec:
  memory: 64Mi
  template: {spec: {containers: [{name: main, image: none}]}}
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is no OfflineJob in it"),
        ("# nothing\n---\n", "there is no OfflineJob in it"),
        ("a: [", "no YAML: "),
        ("hello", "no object, expected an OfflineJob"),
        ("kind: Job\napiVersion: batch/v1", "batch/v1 Job, expected rowen.dev/v1alpha1 OfflineJob"),
        (JOB.replace("spec:\n  memory", "other:\n  memory"), "metadata and spec have to be objects"),
        (JOB.replace("name: new", "name: New"), "metadata.name: a name was expected: a-z, 0-9"),
        (JOB.replace("64Mi", "4GB"), "spec.memory: an amount of memory was expected, as 4Gi or 500M"),
        (JOB + "  sla: {throughputFraction: 1.5}\n", "spec.sla.throughputFraction: it should be less than or equal"),
        (JOB + "  colour: red\n", "spec.colour: there is no such field"),
        (JOB.replace("template:", "x: 1 #"), "spec.x: there is no such field"),
        (JOB.replace("  template:", "#"), "spec: exactly one of fineTune, batchInference, template must be set"),
        (
            JOB + "  managedBy: example.com/other\n",
            "spec.managedBy: managed by example.com/other: Rowen leaves",
        ),
        (f"{JOB}---\n{JOB.replace('64Mi', 'much')}", "document 2: spec.memory"),
        ("---\n".join([JOB] * 21), "21 jobs, at most 20"),
        ("x" * 2**18 + "y", "longer than 262144 characters"),
    ],
)
def test_a_wrong_manifest_is_told_with_file_and_field(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, api_server: ApiServer, text: str, told: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    line = failed(monkeypatch, api_server.kubeconfig, "whatif", "-f", str(file))
    assert line.startswith(f"error: {file}: ")
    assert told in line
    if text:
        line = failed(monkeypatch, api_server.kubeconfig, "whatif", "-f", "-", text=text)
        assert line.startswith("error: standard input: ")
        assert told in line


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("  memoryLimit: 32Mi\n", "spec: memoryLimit must not be below memory"),
        ("  priority: yes\n", "spec.priority: it should be a valid integer"),
        ('  devices: "2"\n', "spec.devices: it should be a valid integer"),
        ("  devices: 2\n  memoryLimit: 128Mi\n", "spec: memoryLimit goes with one device"),
        ("  profile: {memoryLoss: 1}\n", "spec: profile: memoryLoss goes with memoryCurve"),
    ],
)
def test_what_breaks_the_apis_rules_is_told_without_the_api_server(
    monkeypatch: pytest.MonkeyPatch, api_server: ApiServer, spec: str, told: str
) -> None:
    line = failed(monkeypatch, api_server.kubeconfig, "whatif", "-f", "-", "--service-account", "none", text=JOB + spec)
    assert line == f"error: standard input: {told}"


@pytest.mark.parametrize(
    ("container", "told"),
    [
        ("env: [{name: ROWEN_LIBRARY, value: x}]", "[0].env[0]: ROWEN_LIBRARY is set by Rowen's device plugin"),
        ("resources: {limits: {rowen.dev/online: 1}}", "[0].resources.limits: rowen.dev/online must not be asked for"),
        ("env: [{name: A, value: 1}]", "[0].env[0].value: it should be a valid string"),
        (
            "env: [{name: ROWEN_LIBRARY, value: x}, {name: ROWEN_POOL_BYTES, value: x}]",
            "[0].env[0]: ROWEN_LIBRARY is set by Rowen's device plugin; a template must not set it; "
            "spec.template.spec.containers[0].env[1]: ROWEN_POOL_BYTES is set by Rowen, from spec.memoryLimit",
        ),
    ],
)
def test_a_template_that_would_end_the_job_is_told_with_its_field(
    monkeypatch: pytest.MonkeyPatch, api_server: ApiServer, container: str, told: str
) -> None:
    """The operator would end it: the API server takes any template."""
    text = JOB.replace("image: none", f"image: none, {container}")
    line = failed(monkeypatch, api_server.kubeconfig, "whatif", "-f", "-", "--service-account", "none", text=text)
    assert line.startswith(f"error: standard input: spec.template.spec.containers{told}")
    assert line.endswith(" (the job would end as InvalidTemplate)")


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ("{spec: {containers: [{name: main}]}}", "spec.template.spec.containers[0].image: Req"),
        ("{spec: {containers: [{image: none, command: {}}]}}", "command"),
        ("{spec: {containers: [{name: A, image: none}]}}", "spec.template.spec.containers[0].name: Inv"),
        (
            "{spec: {containers: [{image: none, imagePullPolic: Never}]}}",
            'unknown field "spec.template.spec.containers[0].imagePull',
        ),
        ("{metadata: {labels: {a: -}}, spec: {containers: [{image: none}]}}", "metadata.labels"),
    ],
)
def test_what_the_api_server_would_refuse_of_a_templates_pod_is_told_with_its_field(
    monkeypatch: pytest.MonkeyPatch, api_server: ApiServer, template: str, field: str
) -> None:
    text = JOB.replace("{spec: {containers: [{name: main, image: none}]}}", template)
    line = failed(monkeypatch, api_server.kubeconfig, "whatif", "-f", "-", "--service-account", "none", text=text)
    assert line.startswith("error: standard input: spec.template: the API server would refuse its pod, and the job")
    assert field in line


@pytest.mark.parametrize(
    ("overlay", "field"),
    [
        ("{metadata: {labels: {a: -}}}", "spec.podTemplate.metadata.labels: Inv"),
        ("{spec: {tolerations: [{value: x}]}}", "spec.podTemplate.spec.tolerations[0].operator: Inv"),
        ("{spec: {affinity: {nodeAfinity: {}}}}", 'unknown field "spec.podTemplate.spec.affinity.nodeAf'),
        (
            "{spec: {containers: [{name: worker, resources: {limits: {cpu: 50m}}}]}}",
            "spec.podTemplate.spec.containers[0].resources.requests: Inv",
        ),
        (
            "{spec: {containers: [{name: worker, volumeMounts: [{name: a, mountPath: /a}]}]}}",
            "podTemplate.spec: volumeMounts must name volumes of podTemplate.spec.volumes",
        ),
    ],
)
def test_what_is_wrong_in_a_pod_template_is_told_with_its_field(
    monkeypatch: pytest.MonkeyPatch, api_server: ApiServer, overlay: str, field: str
) -> None:
    files = "".join(f", {name}: {{claimName: d, path: {name}}}" for name in ("model", "input", "output")).lstrip(", ")
    text = JOB.replace("template: {spec: {containers: [{name: main, image: none}]}}", f"batchInference: {{{files}}}")
    text += f"  podTemplate: {overlay}\n"
    line = failed(monkeypatch, api_server.kubeconfig, "whatif", "-f", "-", "--service-account", "none", text=text)
    assert field in line


def test_what_only_the_api_server_knows_is_told_as_it_says_it(
    monkeypatch: pytest.MonkeyPatch, api_server: ApiServer
) -> None:
    text = JOB.replace("name: new", "name: new\n  labels: {a: -}")
    line = failed(monkeypatch, api_server.kubeconfig, "whatif", "-f", "-", "--service-account", "none", text=text)
    assert line.startswith("error: standard input: the API server would refuse it: ")
    assert "metadata.labels" in line


def test_a_date_in_a_template_is_text(monkeypatch: pytest.MonkeyPatch, api_server: ApiServer) -> None:
    """YAML makes a date of it, JSON and so the API know none."""
    text = JOB.replace("image: none", "image: none, env: [{name: DAY, value: 2026-01-01}]")
    line = failed(monkeypatch, api_server.kubeconfig, "whatif", "-f", "-", "--service-account", "none", text=text)
    assert line == "error: there is no service account none in namespace default"


def test_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, api_server: ApiServer) -> None:
    none = tmp_path / "none.yaml"
    assert "none.yaml: cannot be read: No such file" in failed(
        monkeypatch, api_server.kubeconfig, "whatif", "-f", str(none)
    )
    none.write_bytes(b"\xff\xfe\x00")
    assert "none.yaml: cannot be read: no text" in failed(monkeypatch, api_server.kubeconfig, "whatif", "-f", str(none))


def test_another_namespace_than_the_manifests_is_refused(
    monkeypatch: pytest.MonkeyPatch, api_server: ApiServer
) -> None:
    text = JOB.replace("name: new", "name: new\n  namespace: a")
    told = failed(monkeypatch, api_server.kubeconfig, "whatif", "-f", "-", "-n", "b", text=text)
    assert "metadata.namespace is a, not b" in told


def test_a_certificate_is_no_token(monkeypatch: pytest.MonkeyPatch, api_server: ApiServer) -> None:
    told = failed(monkeypatch, api_server.kubeconfig, "whatif", "-f", "-", text=JOB)
    assert "by a client certificate, which the scheduler cannot check" in told
    assert "--service-account" in told


@pytest.mark.parametrize("service", ["rowen-scheduler", "a/b/c", "/b", "a/"])
def test_what_is_no_service(monkeypatch: pytest.MonkeyPatch, api_server: ApiServer, service: str) -> None:
    assert failed(
        monkeypatch, api_server.kubeconfig, "whatif", "-f", "-", "--service-account", "none", "--scheduler", service,
        text=JOB,
    ).startswith("error: ")  # fmt: skip


def test_of_a_job_that_has_a_place_that_is_told_first() -> None:
    """That a new one would find none does not take it away."""
    job = {
        "namespace": "ns",
        "name": "x",
        "action": "wait",
        "message": "why",
        "present": {"node": "n", "devices": ["g0", "g1"]},
    }
    written = StringIO()
    show_answer({"jobs": [job, {**job, "present": None}]}, 2, Console(file=written, width=40))
    assert written.getvalue().splitlines() == [
        "ns/x is on n/g0+g1 and stays there",
        "a new one in its stead would not be placed: why",
        "ns/x would not be placed: why",
    ]


def test_why_a_job_would_not_ride_is_told_behind_its_place() -> None:
    job = {"namespace": "ns", "name": "x", "action": "place", "node": "n", "devices": ["g0"], "predictedFraction": 0.7}
    written = StringIO()
    show_answer({"jobs": [{**job, "notSeated": "lora.dropout above 0"}, job]}, 2, Console(file=written, width=40))
    place = "ns/x would go to n/g0: predicted 0.70 of its throughput alone; tokens per second are not known yet"
    assert written.getvalue().splitlines() == [f"{place}; not in an engine (CoServe): lora.dropout above 0", place]


@pytest.fixture
async def stage(kube: Client, namespace: str) -> AsyncIterator[Stage]:
    made = Stage(kube, namespace, Clock(), agents=f"{namespace}-agents")
    await made.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.agents}}, "namespaces")
    await made.alone()
    await made.service()
    yield made
    await made.clear()


def address() -> str:
    """One of this machine's own that is not the loopback: the API server's proxy goes to no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.77", 9))
        except OSError:
            pytest.skip("this machine has no address but the loopback")
        return str(probe.getsockname()[0])


async def published(stage: Stage, port: int) -> None:
    """The scheduler's Service with a pod behind it, as the endpoints controller writes it."""
    space, here = {"namespace": stage.namespace}, address()
    spec = {"ports": [{"name": "https", "port": 9091, "targetPort": port}]}
    meta = {"name": "rowen-scheduler", **space}
    await apply(stage.client, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}, manager="test")
    await stage.pod("the-scheduler", "none", memory="1Mi")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "the-scheduler", **space}}
    await apply_status(
        stage.client, {**pod, "status": {"phase": "Running", "podIP": here, "podIPs": [{"ip": here}]}}, manager="test"
    )
    behind = {"ip": here, "targetRef": {"kind": "Pod", "name": "the-scheduler", **space}}
    subsets = [{"addresses": [behind], "ports": [{"name": "https", "port": port}]}]
    await stage.client.call(
        "POST", f"/api/v1/namespaces/{stage.namespace}/endpoints",
        body={"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets},
    )  # fmt: skip


async def kubeconfig(stage: Stage, api_server: ApiServer, name: str) -> Path:
    """Of a service account, by its token."""
    found = yaml.safe_load(api_server.kubeconfig.read_text())
    found["users"][0]["user"] = {"token": await token(stage.client, stage.namespace, name)}
    found["contexts"][0]["context"]["namespace"] = stage.namespace
    path = api_server.authority.folder / f"{stage.namespace}-{name}.kubeconfig"
    path.write_text(yaml.safe_dump(found))
    return path


async def test_the_scheduler_answers_through_the_api_server(
    stage: Stage, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One account may all that is needed, one may not reach the scheduler, one may read no job."""
    await grant(stage)
    port = free_port()
    await published(stage, port)
    read, caller = rule("rowen.dev", ["offlinejobs"], ["get", "list"]), "rowen-scheduler-caller"
    for name in ("ann", "outsider", "stranger"):
        await account(stage.client, stage.namespace, name)
    for name in ("ann", "outsider"):
        await allow(stage.client, stage.namespace, name, read)
    # Her jobs are tried first; who may not create any gets an answer all the same.
    await allow(stage.client, stage.namespace, "ann", read, rule("rowen.dev", ["offlinejobs"], ["create"]))
    for name in ("ann", "stranger"):
        await bind(stage.client, stage.namespace, f"{name}-calls", caller, name)
    ann, outsider, stranger = [await kubeconfig(stage, api_server, name) for name in ("ann", "outsider", "stranger")]
    node = await stage.node("a")
    await stage.job("j", sla={"throughputFraction": 0.97})
    environment = settings(stage, api_server, health := free_port(), port)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rowen.scheduler", env=environment, stderr=subprocess.PIPE
    )
    where = ["--scheduler", f"{stage.namespace}/rowen-scheduler"]
    try:
        await alive(health, port)
        async with stage.alive(node):
            await stage.await_job("j", lambda status: "explanation" in status)
            await stage.report(node, idle=0.7)
            await stage.await_job("j", lambda status: "idle" in status["explanation"]["message"])

            async def ask(config: Path, *arguments: str) -> str:
                return await asyncio.to_thread(invoke, monkeypatch, config, *arguments, *where, text=JOB)

            async def refused(config: Path, *arguments: str) -> str:
                return await asyncio.to_thread(failed, monkeypatch, config, *arguments, *where, text=JOB)

            told = await ask(ann, "whatif", "-f", "-")
            assert f"{stage.namespace}/new would go to {node}/cpu0: predicted 0." in told
            assert "tokens per second are not known yet" in told
            answer = json.loads(await ask(ann, "whatif", "-f", "-", "-o", "json"))
            assert (answer["jobs"][0]["name"], answer["jobs"][0]["node"]) == ("new", node)

            stored = await list_all(stage.client, OFFLINE_JOBS, namespace=stage.namespace)
            assert [job["metadata"]["name"] for job in stored] == ["j"]

            told = await ask(ann, "explain", "j", "--candidates")
            assert f"{node}/cpu0: idle 0.70 < SLA 0.97" in told
            listed = json.loads(await ask(ann, "explain", "j", "--candidates", "-o", "json"))
            assert [entry["node"] for entry in listed["candidates"]].count(node) == 1

            told = await ask(
                api_server.kubeconfig, "whatif", "-f", "-", "-n", stage.namespace, "--service-account", "ann"
            )
            assert f"would go to {node}/cpu0" in told

            told = await refused(outsider, "whatif", "-f", "-")
            assert 'cannot create resource "services/proxy"' in told
            assert "; ask for the Role rowen-scheduler-caller" in told
            told = await refused(stranger, "whatif", "-f", "-")
            assert told.startswith(
                f"error: the scheduler answers: system:serviceaccount:{stage.namespace}:stranger may not"
            )
            assert told.endswith(f"list offlinejobs.rowen.dev in namespace {stage.namespace}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        _, log = await asyncio.wait_for(process.communicate(), 20)
    assert "Traceback" not in log.decode()
    for config in (ann, outsider, stranger):
        assert yaml.safe_load(config.read_text())["users"][0]["user"]["token"] not in log.decode()

    line = await asyncio.to_thread(failed, monkeypatch, ann, "whatif", "-f", "-", *where, text=JOB)
    assert line.startswith("error: the API server answers: ")


async def test_a_scheduler_that_is_not_there_is_told(
    stage: Stage, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await account(stage.client, stage.namespace, "ann")
    with contextlib.suppress(RefusedError):
        await stage.client.call("DELETE", f"/api/v1/namespaces/{stage.namespace}/services/rowen-scheduler")
    line = await asyncio.to_thread(
        failed, monkeypatch, api_server.kubeconfig, "whatif", "-f", "-", "-n", stage.namespace,
        "--service-account", "ann", "--scheduler", f"{stage.namespace}/rowen-scheduler", text=JOB,
    )  # fmt: skip
    assert line == 'error: the API server answers: services "rowen-scheduler" not found'
