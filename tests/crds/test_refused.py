"""A wrong manifest is refused by the API server, with a message that names the field."""

import re
from typing import Any

import pytest
from kubectl import Kubectl
from samples import BATCH, TEMPLATE, WORKLOAD_REF, Manifest, changed, offline_job, online_service

JOB = offline_job()
SERVICE = online_service()
ELASTIC = changed(SERVICE, "spec.engine.memoryLimit", "1Ti")
CO_SERVING = changed(SERVICE, "spec.harvest.mode", "CoServe")
MODES_BESIDE_REQUESTS = ("CoServe", "Spatial")
HUB_MODEL = {"huggingFace": {"repo": "a/b", "revision": "c"}}


def pods(path: str, value: Any) -> Manifest:
    """A job with one field in its podTemplate."""
    return changed(JOB, f"spec.podTemplate.{path}", value)


def worker(**fields: Any) -> Manifest:
    """A job that adds to its container."""
    return pods("spec.containers", [{"name": "worker", **fields}])


def engine(**fields: Any) -> Manifest:
    """A service that adds to its engine's container."""
    return changed(SERVICE, "spec.engine.podTemplate.spec.containers", [{"name": "engine", **fields}])


def mounted(path: str) -> Manifest:
    """A job that mounts a volume there."""
    volumes = pods("spec.volumes", [{"name": "cache", "emptyDir": {}}])
    container = {"name": "worker", "volumeMounts": [{"name": "cache", "mountPath": path}]}
    return changed(volumes, "spec.podTemplate.spec.containers", [container])


_SPEC = "spec.podTemplate.spec"
_AT = r"\[[^]]*\]"
_CONTAINER = f"{_SPEC}.containers{_AT}"
_SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
POD_FAULTS: list[tuple[str, Manifest, str, str]] = [
    ("a host's network", pods("spec.hostNetwork", True), f"{_SPEC}.hostNetwork", ""),
    ("an init container", pods("spec.initContainers", []), f"{_SPEC}.initContainers", ""),
    ("a name", pods("metadata.name", "x"), "spec.podTemplate.metadata.name", ""),
    ("an image", worker(image="x"), f"{_CONTAINER}.image", ""),
    ("a command", worker(command=["x"]), f"{_CONTAINER}.command", ""),
    ("a security context", worker(securityContext={}), f"{_CONTAINER}.securityContext", ""),
    (
        "another container",
        pods("spec.containers", [{"name": "side"}]),
        f"{_CONTAINER}.name",
        'supported values: "worker"',
    ),
    ("two containers", pods("spec.containers", [{"name": "worker"}] * 2), f"{_SPEC}.containers", ""),
    (
        "a label of Rowen's",
        pods("metadata.labels", {"rowen.dev/job": "x"}),
        "spec.podTemplate.metadata",
        "labels must not",
    ),
    (
        "the operator's label",
        pods("metadata.labels", {"app.kubernetes.io/managed-by": "me"}),
        "spec.podTemplate.metadata",
        "labels must not set Rowen's own",
    ),
    (
        "an annotation of Rowen's",
        pods("metadata.annotations", {"rowen.dev/devices": "x"}),
        "spec.podTemplate.metadata",
        "annotations must not set Rowen's own",
    ),
    ("a number as label", pods("metadata.labels", {"a": 1}), "spec.podTemplate.metadata.labels.a", "string"),
    ("a number as selector", pods("spec.nodeSelector", {"a": 1}), f"{_SPEC}.nodeSelector.a", "string"),
    (
        "an unknown operator of a toleration",
        pods("spec.tolerations", [{"key": "a", "operator": "Is"}]),
        f"{_SPEC}.tolerations{_AT}.operator",
        'supported values: "Equal", "Exists"',
    ),
    ("a misspelt toleration", pods("spec.tolerations", [{"kye": "a"}]), f"{_SPEC}.tolerations{_AT}.kye", ""),
    (
        "a variable of Rowen's",
        worker(env=[{"name": "ROWEN_LIBRARY"}]),
        f"{_CONTAINER}.env{_AT}",
        "name must not begin",
    ),
    (
        "a preload that nobody can see",
        worker(env=[{"name": "LD_PRELOAD", "valueFrom": _SECRET}]),
        f"{_CONTAINER}.env{_AT}",
        "LD_PRELOAD must be a plain value",
    ),
    ("a number as a variable", worker(env=[{"name": "A", "value": 1}]), f"{_CONTAINER}.env{_AT}.value", "string"),
    ("a variable twice", worker(env=[{"name": "A"}] * 2), f"{_CONTAINER}.env", "[Dd]uplicate"),
    ("memory", worker(resources={"limits": {"memory": "1Gi"}}), f"{_CONTAINER}.resources", "memory must not be named"),
    (
        "a device",
        worker(resources={"requests": {"rowen.dev/online": 1}}),
        f"{_CONTAINER}.resources",
        "asks for the devices",
    ),
    ("no quantity", worker(resources={"limits": {"cpu": "much"}}), f"{_CONTAINER}.resources.limits.cpu", ""),
    ("a number below zero", worker(resources={"limits": {"cpu": -2}}), f"{_CONTAINER}.resources.limits.cpu", ""),
    ("a long number", worker(resources={"limits": {"cpu": "1" * 33}}), f"{_CONTAINER}.resources.limits.cpu", ""),
    ("half a CPU as a number", worker(resources={"limits": {"cpu": 0.5}}), f"{_CONTAINER}.resources.limits.cpu", ""),
    *(
        (f"a mount at {path}", mounted(path), f"{_CONTAINER}.volumeMounts{_AT}", "mountPath must not be Rowen's own")
        for path in (
            "/tmp",
            "/tmp/",
            "/run",
            "/run/rowen",
            "/run/rowen/x",
            "/volumes/data",
            "/secrets",
            "/dev/termination-log",
        )
    ),
    *(
        (f"a mount at {path}", mounted(path), f"{_CONTAINER}.volumeMounts{_AT}.mountPath", "should match")
        for path in ("data", "/", "/a/../volumes", "/a/./b", "//tmp", "/a:b")
    ),
    (
        "a mount of nothing",
        worker(volumeMounts=[{"name": "cache", "mountPath": "/cache"}]),
        _SPEC,
        "volumeMounts must name volumes of podTemplate.spec.volumes",
    ),
    (
        "a volume of Rowen's",
        pods("spec.volumes", [{"name": "claim-0"}]),
        f"{_SPEC}.volumes{_AT}",
        "name must not be that of",
    ),
    ("a volume twice", pods("spec.volumes", [{"name": "a"}] * 2), f"{_SPEC}.volumes", "[Dd]uplicate"),
    (
        "a whole template",
        changed(offline_job(fineTune=None, template=TEMPLATE), "spec.podTemplate", {"metadata": {}}),
        "spec: ",
        "podTemplate goes with fineTune and batchInference",
    ),
    (
        "a worker",
        engine(name="worker"),
        f"spec.engine.podTemplate.spec.containers{_AT}.name",
        'supported values: "engine"',
    ),
    (
        "an engine's memory",
        engine(resources={"requests": {"memory": "1Gi"}}),
        f"spec.engine.podTemplate.spec.containers{_AT}.resources",
        "memory must not be named",
    ),
    (
        "an engine's label",
        changed(SERVICE, "spec.engine.podTemplate.metadata.labels", {"rowen.dev/service": "x"}),
        "spec.engine.podTemplate.metadata",
        "labels must not",
    ),
]

REFUSED: list[tuple[str, Manifest, str]] = [
    ("no job kind", offline_job(fineTune=None), "spec: .*exactly one of fineTune, batchInference, template"),
    ("two job kinds", offline_job(template=TEMPLATE), "spec: .*exactly one of fineTune, batchInference, template"),
    ("three job kinds", offline_job(template=TEMPLATE, batchInference=BATCH), "spec: .*exactly one of fineTune"),
    ("sla of nothing", offline_job(sla={"throughputFraction": 0}), "spec.sla.throughputFraction.*greater than 0"),
    ("sla above all", offline_job(sla={"throughputFraction": 1.5}), "spec.sla.throughputFraction.*less than or equal"),
    ("sla as text", offline_job(sla={"throughputFraction": "half"}), "spec.sla.throughputFraction"),
    ("misspelt field", changed(JOB, "spec.fineTune.epoch", 3), "spec.fineTune.epoch"),
    ("misspelt top field", changed(JOB, "spec.suspended", True), "spec.suspended"),
    ("bad quantity", offline_job(memory="4 GB"), "spec.memory"),
    ("no memory", offline_job(memory="0"), "spec.memory"),
    ("dataset above volume", changed(JOB, "spec.fineTune.dataset.path", "a/../../x"), "spec.fineTune.dataset.*'..'"),
    ("output above volume", changed(JOB, "spec.fineTune.output.path", "../x"), "spec.fineTune.output.*'..'"),
    ("model above volume", changed(JOB, "spec.fineTune.baseModel.path", ".."), "spec.fineTune.baseModel.*'..'"),
    ("absolute path", changed(JOB, "spec.fineTune.dataset.path", "/etc/passwd"), "spec.fineTune.dataset.path"),
    ("no dataset", changed(JOB, "spec.fineTune", {"baseModel": {}, "output": {}}), "spec.fineTune.dataset: Required"),
    ("no model", changed(JOB, "spec.fineTune.baseModel", {}), "spec.fineTune.baseModel.*exactly one of claimName"),
    (
        "two models",
        changed(JOB, "spec.fineTune.baseModel.huggingFace", HUB_MODEL["huggingFace"]),
        "spec.fineTune.baseModel.*exactly one of claimName",
    ),
    (
        "model without path",
        changed(JOB, "spec.fineTune.baseModel", {"claimName": "a"}),
        "claimName and path go together",
    ),
    ("bad claim", changed(JOB, "spec.fineTune.dataset.claimName", "Data_1"), "spec.fineTune.dataset.claimName"),
    *(
        (
            f"output over the input: {path}",
            offline_job(fineTune=None, batchInference=changed(BATCH, "output.path", path)),
            "spec.batchInference: .*output must not be the same place as input",
        )
        for path in ("in.jsonl", "./in.jsonl", ".//./in.jsonl", "in.jsonl/", "in.jsonl/.")
    ),
    (
        "output over the dataset",
        changed(JOB, "spec.fineTune.output.path", "./train.jsonl"),
        "spec.fineTune: .*output must not be the same place as dataset",
    ),
    (
        "output over the model",
        changed(JOB, "spec.fineTune.output", {"claimName": "models", "path": "tiny//"}),
        "spec.fineTune: .*output must not be the same place as baseModel",
    ),
    ("no LoRA target", changed(JOB, "spec.fineTune.lora.targetModules", []), "spec.fineTune.lora.targetModules"),
    (
        "all linear layers and one more",
        changed(JOB, "spec.fineTune.lora.targetModules", ["all-linear", "q_proj"]),
        "spec.fineTune.lora: .*all-linear stands alone",
    ),
    ("unknown argument", changed(JOB, "spec.fineTune.arguments", {"wieght_decay": 0.1}), "arguments.wieght_decay"),
    (
        "an argument that Rowen decides",
        changed(JOB, "spec.fineTune.arguments", {"output_dir": "/x"}),
        "spec.fineTune.arguments.output_dir",
    ),
    (
        "an argument of another type",
        changed(JOB, "spec.fineTune.arguments", {"weight_decay": "0.1"}),
        "spec.fineTune.arguments.weight_decay",
    ),
    (
        "an argument out of bounds",
        changed(JOB, "spec.fineTune.arguments", {"adam_beta1": 1}),
        "spec.fineTune.arguments.adam_beta1",
    ),
    (
        "an optimizer that is none",
        changed(JOB, "spec.fineTune.arguments", {"optim": "adam"}),
        "spec.fineTune.arguments.optim.*adamw_torch",
    ),
    (
        "evaluation of nothing",
        changed(changed(JOB, "spec.fineTune.heldOutFraction", 0), "spec.fineTune.evaluation", {"steps": 5}),
        "spec.fineTune: .*evaluation needs a heldOutFraction above 0",
    ),
    (
        "dataset nowhere",
        changed(JOB, "spec.fineTune.dataset", {}),
        "spec.fineTune.dataset: .*exactly one of claimName, uri must be set",
    ),
    (
        "dataset on a claim and at an address",
        changed(JOB, "spec.fineTune.dataset.uri", "s3://data/train.jsonl"),
        "spec.fineTune.dataset: .*exactly one of claimName, uri must be set",
    ),
    ("a path alone", changed(JOB, "spec.fineTune.dataset", {"path": "a", "uri": "s3://b/a"}), "claimName and path go"),
    ("a secret for a volume", changed(JOB, "spec.fineTune.output.secretName", "s3"), "secretName goes with uri"),
    (
        "a secret for a model on a volume",
        changed(JOB, "spec.fineTune.baseModel.secretName", "s3"),
        "secretName goes with uri or huggingFace",
    ),
    (
        "an address above the bucket",
        changed(JOB, "spec.fineTune.output", {"uri": "s3://bucket/../x"}),
        "spec.fineTune.output: .*uri must not contain '..'",
    ),
    ("results on the hub", changed(JOB, "spec.fineTune.output", {"uri": "hf://a/b"}), "spec.fineTune.output.uri"),
    (
        "an address of the web",
        changed(JOB, "spec.fineTune.dataset", {"uri": "https://a/b"}),
        "spec.fineTune.dataset.uri",
    ),
    (
        "output at the input's address",
        offline_job(
            fineTune=None,
            batchInference=changed(changed(BATCH, "input", {"uri": "s3://b/x"}), "output", {"uri": "s3://b/x/"}),
        ),
        "spec.batchInference: .*output must not be the same place as input",
    ),
    (
        "errors over the input",
        offline_job(fineTune=None, batchInference=changed(BATCH, "errors", BATCH["input"])),
        "spec.batchInference: .*errors must not be the same place as input",
    ),
    (
        "errors over the output",
        offline_job(fineTune=None, batchInference=changed(BATCH, "errors", BATCH["output"])),
        "spec.batchInference: .*errors must not be the same place as output",
    ),
    (
        "errors in object storage beside an output on a volume",
        offline_job(fineTune=None, batchInference=changed(BATCH, "errors", {"uri": "s3://bucket/errors.jsonl"})),
        "spec.batchInference: .*errors and output must both be on a volume or both in object storage",
    ),
    ("rank zero", changed(JOB, "spec.fineTune.lora.rank", 0), "spec.fineTune.lora.rank"),
    ("learning rate zero", changed(JOB, "spec.fineTune.learningRate", 0), "spec.fineTune.learningRate"),
    ("no device", offline_job(devices=0), "spec.devices.*greater than or equal to 1"),
    ("half a device", offline_job(devices=0.5), "spec.devices"),
    ("priority out of range", offline_job(priority=5000), "spec.priority"),
    ("no time", offline_job(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds.*greater than or equal to 1"),
    ("negative back-off limit", offline_job(backoffLimit=-1), "spec.backoffLimit"),
    ("template as text", offline_job(fineTune=None, template="pod"), "spec.template"),
    ("template without a pod", offline_job(fineTune=None, template={}), "spec: .*template.spec.containers must name"),
    (
        "template without containers",
        offline_job(fineTune=None, template={"spec": {"containers": []}}),
        "spec: .*template.spec.containers must name",
    ),
    ("name too long for a label", offline_job("a" * 64), "metadata.name must have at most 63"),
    ("no engine", online_service(engine=None), "spec: .*exactly one of engine, workloadRef"),
    ("engine and workload", online_service(workloadRef=WORKLOAD_REF), "spec: .*exactly one of engine, workloadRef"),
    ("no objective", online_service(slo=None), "spec.slo: Required"),
    ("bad duration", changed(SERVICE, "spec.slo.ttft.target", "fast"), "spec.slo.ttft.target"),
    ("duration without unit", changed(SERVICE, "spec.slo.tpot.target", "50"), "spec.slo.tpot.target"),
    ("odd percentile", changed(SERVICE, "spec.slo.ttft.percentile", 42), "spec.slo.ttft.percentile.*42"),
    (
        "negative replicas",
        changed(SERVICE, "spec.engine.replicas", -1),
        "spec.engine.replicas.*greater than or equal to 0",
    ),
    (
        "threshold below a half",
        changed(SERVICE, "spec.harvest.memory.pressureThreshold", 0.49),
        "spec.harvest.memory.pressureThreshold.*greater than or equal to 0.5",
    ),
    (
        "threshold above all",
        changed(SERVICE, "spec.harvest.memory.pressureThreshold", 1.01),
        "spec.harvest.memory.pressureThreshold.*less than or equal to 1",
    ),
    (
        "no reclaims at all",
        changed(SERVICE, "spec.harvest.memory.targetReclaimsPerHour", 0),
        "spec.harvest.memory.targetReclaimsPerHour.*greater than or equal to 1",
    ),
    (
        "reclaims without limit",
        changed(SERVICE, "spec.harvest.memory.targetReclaimsPerHour", 601),
        "spec.harvest.memory.targetReclaimsPerHour.*less than or equal to 600",
    ),
    (
        "limit below memory",
        offline_job(memory="4Gi", memoryLimit="4095Mi"),
        "spec: .*memoryLimit must not be below memory",
    ),
    ("limit below the default memory", offline_job(memoryLimit="4G"), "spec: .*memoryLimit must not be below memory"),
    ("limit of a job on two devices", offline_job(devices=2, memoryLimit="8Gi"), "memoryLimit goes with one device"),
    ("bad limit", offline_job(memoryLimit="much"), "spec.memoryLimit"),
    (
        "a curve of zeros",
        offline_job(memoryLimit="8Gi", profile={"memoryCurve": [{"memory": "1Gi", "fraction": 0}]}),
        "spec.profile: .*memoryCurve must have a fraction above 0",
    ),
    (
        "a curve that falls",
        offline_job(
            memoryLimit="8Gi",
            profile={"memoryCurve": [{"memory": "2Gi", "fraction": 0.5}, {"memory": "1Gi", "fraction": 0.6}]},
        ),
        "spec.profile: .*memoryCurve must not fall",
    ),
    (
        "two fractions for one memory",
        offline_job(
            memoryLimit="8Gi",
            profile={"memoryCurve": [{"memory": "1Gi", "fraction": 0.5}, {"memory": "1024Mi", "fraction": 0.6}]},
        ),
        "spec.profile: .*memoryCurve must not fall",
    ),
    ("a loss without a curve", offline_job(profile={"memoryLoss": 1}), "spec.profile: .*memoryLoss goes with memoryC"),
    (
        "a curve without a limit",
        offline_job(profile={"memoryCurve": [{"memory": "1Gi", "fraction": 1}]}),
        "spec: .*profile.memoryCurve goes with memoryLimit",
    ),
    (
        "limit below an engine's memory",
        changed(SERVICE, "spec.engine.memoryLimit", "1Gi"),
        "spec.engine: .*memoryLimit must not be below memory",
    ),
    ("a limit on two devices", changed(ELASTIC, "spec.engine.devicesPerReplica", 2), "devicesPerReplica must be 1"),
    ("no device", changed(SERVICE, "spec.engine.devicesPerReplica", 0), "spec.engine.devicesPerReplica.*1"),
    ("17 devices", changed(SERVICE, "spec.engine.devicesPerReplica", 17), "spec.engine.devicesPerReplica.*16"),
    *(
        (
            f"{arg} of a batch",
            offline_job(fineTune=None, batchInference={**BATCH, "args": ["--dtype=bfloat16", arg, "2"]}),
            "spec.batchInference: .*args must not name any of .*--served-model-name.*: the job decides them",
        )
        for arg in ("--port", "--served_model_name=mine", "--lora-modules", "--worker-cls=x", "-tp", "-asc=2")
    ),
    *(
        (
            f"{arg} with elastic memory",
            changed(ELASTIC, "spec.engine.args", ["--dtype=bfloat16", arg, "2"]),
            "spec.engine: .*args must not name any of .*--worker-cls.* with a memoryLimit",
        )
        for arg in (
            "--kv-cache-memory-bytes=256M",
            "--kv_cache_memory_bytes",
            "--worker-cls",
            "--worker_cls=mine.Worker",
            "--scheduler-cls",
            "--distributed-executor-backend",
            "--num-gpu-blocks-override",
            "--tensor-parallel-size",
            "-tp",
            "-pp=2",
            "-dp",
            "-dcp",
            "--pipeline-parallel-size=1",
            "--data_parallel-size",
            "--decode-context-parallel-size",
            "--kv-transfer-config.kv_role",
            "--speculative-config={}",
            "-sc.method",
            "--watermark=0.01",
        )
    ),
    (
        "a mode that is none",
        changed(SERVICE, "spec.harvest.mode", "Coserve"),
        'spec.harvest.mode.*"Preempt", "CoServe", "Spatial"',
    ),
    (
        "no memory for riders",
        changed(CO_SERVING, "spec.harvest.coServe", {"memory": "0"}),
        "spec.harvest.coServe.memory",
    ),
    (
        "prompts that wait for a word",
        changed(CO_SERVING, "spec.harvest.coServe", {"deferPrefills": "always"}),
        "spec.harvest.coServe.deferPrefills",
    ),
    *(
        (
            f"{mode} beside an engine that Rowen does not run",
            online_service(engine=None, workloadRef=WORKLOAD_REF, harvest={"mode": mode}),
            f"spec: .*harvest.mode {mode} needs an engine that Rowen runs",
        )
        for mode in MODES_BESIDE_REQUESTS
    ),
    *(
        (
            f"{mode} on two devices",
            changed(changed(SERVICE, "spec.harvest.mode", mode), "spec.engine.devicesPerReplica", 2),
            f"spec: .*harvest.mode {mode} goes with one device: engine.devicesPerReplica must be 1",
        )
        for mode in MODES_BESIDE_REQUESTS
    ),
    *(
        (
            f"no time for {latency} with {mode}",
            changed(changed(SERVICE, "spec.harvest.mode", mode), f"spec.slo.{latency}.target", "0.0s"),
            f"spec: .*harvest.mode {mode} needs time: slo.ttft.target and slo.tpot.target must be above 0",
        )
        for mode in MODES_BESIDE_REQUESTS
        for latency in ("ttft", "tpot")
    ),
    *(
        (
            f"{arg} where jobs ride",
            changed(CO_SERVING, "spec.engine.args", ["--dtype=float32", arg, "2"]),
            "spec: .*engine.args must not name any of .*--no-enforce-eager.* with harvest.mode CoServe",
        )
        for arg in (
            "--no-enforce-eager",
            "--no_enforce_eager",
            "-O3",
            "-O.mode=3",
            "-cc.level=1",
            "-q",
            "-tp=2",
            "--port",
        )
    ),
    *((f"{fault} in a pod template", manifest, f"{place}.*{told}") for fault, manifest, place, told in POD_FAULTS),
    ("unknown engine", changed(SERVICE, "spec.engine.type", "Other"), 'spec.engine.type.*supported values: "vLLM"'),
    ("DaemonSet", online_service(engine=None, workloadRef={"kind": "DaemonSet", "name": "x"}), "spec.workloadRef.kind"),
    ("name that no Service can have", online_service("1chat"), "metadata.name must be a DNS label"),
]


@pytest.mark.parametrize(("manifest", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refused(kubectl: Kubectl, manifest: Manifest, message: str) -> None:
    outcome = kubectl.apply(manifest, "--dry-run=server")
    assert not outcome.ok
    assert re.search(message, outcome.text), outcome.text


POD_TEMPLATE: Manifest = {
    "metadata": {"labels": {"team": "search"}, "annotations": {"example.com/note": "a: b"}},
    "spec": {
        "nodeSelector": {"zone": "a"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}],
        "imagePullSecrets": [{"name": "registry"}],
        "priorityClassName": "low",
        "serviceAccountName": "tuner",
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            {"name": "hub", "persistentVolumeClaim": {"claimName": "hub"}},
        ],
    },
}
CONTAINER: Manifest = {
    "env": [{"name": "A", "value": "b"}, {"name": "LD_PRELOAD", "value": "/x.so"}, {"name": "B", "valueFrom": _SECRET}],
    "envFrom": [
        {"prefix": "P_", "configMapRef": {"name": "settings", "optional": True}},
        {"secretRef": {"name": "keys"}},
    ],
    "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": 2, "ephemeral-storage": "1Gi"}},
    "volumeMounts": [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "hub", "mountPath": "/tmp/hub/", "readOnly": True, "subPath": "a"},
        {"name": "hub", "mountPath": "/.cache/a..b"},
    ],
}

ACCEPTED: list[tuple[str, Manifest]] = [
    (
        "a pod template with everything",
        changed(
            pods("metadata", POD_TEMPLATE["metadata"]),
            "spec.podTemplate.spec",
            {**POD_TEMPLATE["spec"], "containers": [{"name": "worker", **CONTAINER}]},
        ),
    ),
    (
        "an engine's pod template with everything",
        changed(
            changed(SERVICE, "spec.engine.podTemplate", POD_TEMPLATE),
            "spec.engine.podTemplate.spec.containers",
            [{"name": "engine", **CONTAINER}],
        ),
    ),
    (
        "the trainer's arguments",
        changed(JOB, "spec.fineTune.arguments", {"weight_decay": 0, "adam_beta2": 0.95, "optim": "adafactor"}),
    ),
    ("an empty pod template", pods("spec.containers", [])),
    ("a limit as large as memory", offline_job(memory="1Gi", memoryLimit="1024Mi")),
    ("a limit that only reads smaller", offline_job(memory="1500Mi", memoryLimit="1.6G")),
    ("a limit above memory", offline_job(fineTune=None, batchInference=BATCH, memoryLimit="4.1Gi")),
    (
        "a curve that begins at nothing",
        offline_job(
            memoryLimit="8Gi",
            profile={"memoryCurve": [{"memory": "1Gi", "fraction": 0}, {"memory": "2Gi", "fraction": 0.01}]},
        ),
    ),
    ("an engine with a limit", ELASTIC),
    ("an engine in which jobs ride", CO_SERVING),
    (
        "args of an engine in which jobs ride",
        changed(CO_SERVING, "spec.engine.args", ["--enable-lora", "--max-num-seqs=8"]),
    ),
    ("args of an engine in which none does", changed(SERVICE, "spec.engine.args", ["--no-enforce-eager", "-O3"])),
    ("memory for riders", changed(CO_SERVING, "spec.harvest.coServe", {"memory": "4Gi"})),
    ("prompts that wait", changed(CO_SERVING, "spec.harvest.coServe", {"deferPrefills": True})),
    (
        "arguments that only begin alike",
        changed(
            ELASTIC,
            "spec.engine.args",
            ["--worker-cls-x", "--watermark-config={}", "--max-model-len=512", "-tpx", "x--worker-cls", "-O2"],
        ),
    ),
    (
        "arguments beside a limit that adds nothing",
        changed(changed(SERVICE, "spec.engine.memoryLimit", "4Gi"), "spec.engine.args", ["--worker-cls", "x"]),
    ),
    (
        "a batch's arguments",
        offline_job(
            fineTune=None,
            batchInference={**BATCH, "args": ["--tool-call-parser", "hermes", "--max-num-seqs=8", "--portable"]},
        ),
    ),
    ("arguments without a limit", changed(SERVICE, "spec.engine.args", ["--kv-cache-memory-bytes=256M", "-tp", "1"])),
]


@pytest.mark.parametrize("manifest", [case[1] for case in ACCEPTED], ids=[case[0] for case in ACCEPTED])
def test_accepted(kubectl: Kubectl, manifest: Manifest) -> None:
    outcome = kubectl.apply(manifest, "--dry-run=server")
    assert outcome.ok, outcome.text


ALIKE: list[tuple[str, Manifest]] = [
    (
        "the input's path on another claim",
        offline_job(fineTune=None, batchInference=changed(BATCH, "output", {"claimName": "out", "path": "in.jsonl"})),
    ),
    ("below the input's name", offline_job(fineTune=None, batchInference=changed(BATCH, "output.path", "in.jsonl/x"))),
    ("the same parts, cut elsewhere", changed(JOB, "spec.fineTune.output.path", "train/.jsonl")),
    (
        "the model's path on another claim",
        changed(JOB, "spec.fineTune.output", {"claimName": "data", "path": "tiny"}),
    ),
    ("inside the model's folder", changed(JOB, "spec.fineTune.output", {"claimName": "models", "path": "tiny/a"})),
    ("beside a model of the hub", changed(JOB, "spec.fineTune.baseModel", HUB_MODEL)),
]


@pytest.mark.parametrize("manifest", [case[1] for case in ALIKE], ids=[case[0] for case in ALIKE])
def test_places_that_only_look_alike_are_accepted(kubectl: Kubectl, manifest: Manifest) -> None:
    outcome = kubectl.apply(manifest, "--dry-run=server")
    assert outcome.ok, outcome.text
