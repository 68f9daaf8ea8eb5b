"""helm on Rowen's chart."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver import BINARIES
from kubectl import Outcome

from rowen.crds.generate import REPOSITORY

CHART = REPOSITORY / "charts" / "rowen"
RELEASE = "rowen"
NAMESPACE = "rowen-system"
KUBE_VERSION = "1.34.4"
EXAMPLES = sorted((REPOSITORY / "examples" / "helm").glob("*.yaml"))

Values = dict[str, Any]
Manifest = dict[str, Any]

DEVICES = [{"node": "node-*", "id": "cpu1", "cpus": "1,3-4", "memory": "8Gi", "harvestSlots": 2}]
PLACEMENT: Values = {
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"pool": "infra"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "arch", "operator": "In", "values": ["amd64"]}]}
    ]}}},
    "extraEnv": [{"name": "EXTRA", "value": "1"}],
}  # fmt: skip
BATCH_API: Values = {
    "enabled": True, "tlsSecret": "gateway-tls",
    "storage": {"uri": "s3://bucket/rowen", "secretName": "gateway-storage", "ports": [443, 9000]},
}  # fmt: skip
FULL: Values = {
    "image": {
        "controlplane": "example.test:5000/rowen/controlplane:1.2.3",
        "agent": "example.test/rowen/agent@sha256:" + "a" * 64,
        "runtime": "rowen/runtime:1.2.3",
        "pullPolicy": "Always",
    },
    "imagePullSecrets": [{"name": "pull"}],
    "commonLabels": {"team": "ml"},
    "operator": PLACEMENT,
    "scheduler": PLACEMENT,
    "batchApi": {**PLACEMENT, **BATCH_API},
    "agent": {**PLACEMENT, "namespace": "harvest-agents", "devices": DEVICES},
    "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]},
    "monitoring": {"podMonitor": {"enabled": True}, "dashboards": {"enabled": True}, "rules": {"enabled": True}},
}
VALUE_SETS: dict[str, Values] = {
    "defaults": {},
    "devices": {"agent": {"devices": DEVICES}},
    "no network policies": {"networkPolicy": {"enabled": False}},
    "full": FULL,
    "batch API with the pod's identity": {
        "batchApi": {**BATCH_API, "storage": {"uri": "gs://bucket"}, "jobSecretName": ""}
    },
    "rights bound by hand": {"rbac": {"aggregate": False}},
    **{f"examples/helm/{path.name}": yaml.safe_load(path.read_text()) for path in EXAMPLES},
}


def helm(*words: str, values: Values | None = None, kubeconfig: Path | None = None) -> Outcome:
    """Runs helm with the values in a file; output and errors come back as one text."""
    binary = BINARIES / "helm"
    if not binary.exists():
        pytest.skip(f"no helm in {BINARIES}: make tools builds it")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "values.json"
        file.write_text(json.dumps(values or {}))
        more = [f"--values={file}"] if values is not None else []
        more += [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
        command = [str(binary), *words, *more]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120
        )
    return Outcome(done.returncode == 0, done.stdout)


def template(values: Values) -> str:
    """The rendered chart. Fails the test when helm refuses the values."""
    outcome = helm(
        "template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", f"--kube-version={KUBE_VERSION}", values=values
    )
    assert outcome.ok, outcome.text
    return outcome.text


def render(values: Values) -> list[Manifest]:
    """The rendered chart, parsed."""
    return [manifest for manifest in yaml.safe_load_all(template(values)) if manifest]


def pod_specs(manifests: list[Manifest]) -> dict[str, Manifest]:
    """Every pod spec in the manifests, by kind and name of the object that holds it."""
    result = {}
    for manifest in manifests:
        spec = manifest.get("spec") or {}
        pod = spec if manifest["kind"] == "Pod" else spec.get("template", {}).get("spec")
        if pod:
            result[f"{manifest['kind']}/{manifest['metadata']['name']}"] = pod
    return result
