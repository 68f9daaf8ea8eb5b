"""Wrong values are refused, and the message names the field."""

import re

import pytest
from helm import CHART, KUBE_VERSION, NAMESPACE, Values, helm

_DEVICE = {"node": "*", "id": "cpu1", "cpus": "1", "memory": "8Gi"}
_GPU = "GPU-8bd57e0a-1111-2222-3333-444455556666"


def _device(**fields: object) -> Values:
    return {"agent": {"devices": [{**_DEVICE, **fields}]}}


def _gpu(**fields: object) -> Values:
    device = {"node": "*", "id": "gpu0", "backend": "nvidia", "gpu": _GPU, "memory": "80Gi"}
    return {"agent": {"devices": [{**device, **fields}]}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"image": {"agent": "rowen/agent:latest"}}, r"image\.agent: .* a tag other than latest, or a digest, was exp"),
        ({"image": {"runtime": "rowen/runtime"}}, r'image\.runtime: a full reference .* was expected, not "rowen/run'),
        ({"image": {"controlplane": ""}}, r"image\.controlplane: a full reference"),
        ({"image": {"agent": "rowen/agent@sha256:ab"}}, r"image\.agent: a full reference"),
        ({"image": {"agent": 1}}, r"image.*agent"),
        ({"image": {"pullPolicy": "Sometimes"}}, r"image.*pullPolicy"),
        ({"rbac": {"aggregate": "no"}}, r"rbac.*aggregate"),
        ({"agnet": {}}, r"agnet"),
        ({"operator": {"replicas": 2}}, r"operator.*replicas"),
        ({"agent": {"namespace": "Agents"}}, r"agent.*namespace"),
        ({"agent": {"namespace": NAMESPACE}}, r"agent\.namespace must differ"),
        (_device(id="CPU 1"), r"agent.*devices.*0.*id"),
        (_device(id="cpu-1"), r"agent.*devices.*0.*id"),
        (_device(cpus="one"), r"agent.*devices.*0.*cpus"),
        (_device(cpus=1), r"agent.*devices.*0.*cpus"),
        (_device(memory="lots"), r"agent.*devices.*0.*memory"),
        (_device(handle="2.5Mi"), r"agent.*devices.*0.*handle"),
        (_device(backend="amd"), r"agent.*devices.*0.*backend"),
        (_device(gpu=_GPU), r"agent.*devices.*0.*gpu"),
        (_device(backend="nvidia", gpu=_GPU), r"agent.*devices.*0.*cpus"),
        (_gpu(gpu="0"), r"agent.*devices.*0.*gpu"),
        (_gpu(handle="2Mi"), r"agent.*devices.*0.*handle"),
        ({"agent": {"devices": [{"node": "*", "id": "gpu0", "backend": "nvidia"}]}}, r"agent.*devices.*0.*gpu"),
        (_device(harvestSlots=0), r"agent.*devices.*0.*harvestSlots"),
        (_device(slots=2), r"agent.*devices.*0.*slots"),
        ({"agent": {"devices": [{"node": "*"}]}}, r"agent.*devices.*0.*(id|cpus|memory)"),
        ({"batchApi": {"enabled": True, "storage": {"uri": "s3://bucket"}}}, r"batchApi.*tlsSecret"),
        ({"batchApi": {"enabled": True, "tlsSecret": "tls"}}, r"batchApi.*storage.*uri"),
        ({"batchApi": {"storage": {"uri": "http://bucket"}}}, r"batchApi.*storage.*uri"),
        ({"batchApi": {"jobSecretName": "A b"}}, r"batchApi.*jobSecretName"),
        ({"networkPolicy": {"apiServerPorts": [0]}}, r"networkPolicy.*apiServerPorts"),
        ({"monitoring": {"podMonitor": {"interval": "often"}}}, r"monitoring.*podMonitor.*interval"),
        ({"commonLabels": {"app.kubernetes.io/name": "x"}}, r"commonLabels"),
    ],
)
def test_refused(values: Values, message: str) -> None:
    outcome = helm(
        "template", "rowen", str(CHART), f"--namespace={NAMESPACE}", f"--kube-version={KUBE_VERSION}", values=values
    )
    assert not outcome.ok
    assert re.search(message, outcome.text, re.DOTALL), outcome.text


def test_old_kubernetes_is_refused() -> None:
    outcome = helm("template", "rowen", str(CHART), "--kube-version=1.29.0", values={})
    assert not outcome.ok
    assert "requires kubeVersion" in outcome.text


def test_helm_knows_the_kubernetes_of_the_local_cluster() -> None:
    """Without a cluster helm takes the version that it was built for, and the chart asks for 1.30."""
    outcome = helm("template", "rowen", str(CHART), values={})
    assert outcome.ok, outcome.text
