"""The components understand what the chart tells them."""

from typing import Any

import pytest
import yaml
from helm import BATCH_API, DEVICES, Values, pod_specs, render

from rowen.kube.settings import read_settings

GPU = {"node": "node-1", "id": "gpu0", "backend": "nvidia", "memory": "80Gi"}
GPU["gpu"] = "GPU-8bd57e0a-1111-2222-3333-444455556666"


def _environment(name: str, values: Values | None = None) -> dict[str, str]:
    """A pod's environment as the kubelet would fill it in."""
    fields = {"metadata.namespace": "rowen-system", "spec.nodeName": "node-1"}
    (container,) = pod_specs(render(values or {}))[name]["containers"]
    return {
        entry["name"]: entry.get("value") or fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        for entry in container["env"]
    }


def test_agent_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    config = pytest.importorskip("rowen.node_agent.config")
    pod = pod_specs(render({}))["DaemonSet/rowen-agent"]
    for name, value in _environment("DaemonSet/rowen-agent").items():
        monkeypatch.setenv(name, value)
    settings = read_settings(config.Settings)
    mounts = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert settings.node == "node-1"
    assert settings.port == pod["containers"][0]["ports"][0]["containerPort"]
    assert {str(settings.devices.parent), str(settings.run_directory)} <= mounts
    assert {str(settings.device_plugins), str(settings.pod_resources.parent)} <= mounts


def test_agent_devices() -> None:
    config = pytest.importorskip("rowen.node_agent.config")
    (written,) = [
        manifest["data"]["devices.yaml"]
        for manifest in render({"agent": {"devices": [*DEVICES, GPU]}})
        if manifest["kind"] == "ConfigMap"
    ]
    document: dict[str, Any] = yaml.safe_load(written)
    device, gpu = config.node_devices(document, "node-1")
    assert (gpu.backend, gpu.id, gpu.gpu) == ("nvidia", "gpu0", GPU["gpu"])
    assert (device.id, device.cpu_numbers, device.harvest_slots) == ("cpu1", (1, 3, 4), 2)
    assert config.node_devices(document, "other") == []


def test_scheduler_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("rowen.scheduler.settings")
    for name, value in _environment("Deployment/rowen-scheduler").items():
        monkeypatch.setenv(name, value)
    settings = read_settings(module.Settings)
    assert settings.namespace == "rowen-system"
    assert (settings.port, settings.api_port) == (9090, 9091)


@pytest.mark.parametrize("secret", ["gateway-storage", ""])
def test_gateway_settings(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    module = pytest.importorskip("rowen.gateway.settings")
    values = {"batchApi": {**BATCH_API, "storage": {**BATCH_API["storage"], "secretName": secret}}}
    for name, value in _environment("Deployment/rowen-gateway", values).items():
        monkeypatch.setenv(name, value)
    settings = read_settings(module.Settings)
    pod = pod_specs(render(values))["Deployment/rowen-gateway"]
    (container,) = pod["containers"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert (settings.storage_uri, settings.job_secret_name) == ("s3://bucket/rowen", "rowen-batch")
    assert str(settings.tls_folder) in mounts
    assert {"metrics": settings.metrics_port, "api": settings.port} == {
        port["name"]: port["containerPort"] for port in container["ports"]
    }
    if secret:
        assert str(settings.storage_secret_folder) in mounts
    else:
        assert settings.storage_secret_folder is None
    secrets = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert secrets == {"gateway-tls", secret} - {""}
