"""helm against a real API server: everything is accepted, with its fields known and its pods admitted."""

from typing import Any

import pytest
from helm import CHART, FULL, NAMESPACE, RELEASE, VALUE_SETS, Values, helm, pod_specs, render

# Their definitions belong to the Prometheus operator, which is not here.
_FOREIGN = ("PodMonitor", "PrometheusRule")


@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS.keys())
def test_the_api_server_accepts_every_object(release: Any, values: Values) -> None:
    """Stronger than comparing with published schemas: defaulting, validation, CEL and strict field names."""
    namespace = values.get("agent", {}).get("namespace", "rowen-agent")
    assert release.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}).ok
    for manifest in render(values):
        if manifest["kind"] in _FOREIGN:
            continue
        outcome = release.kubectl.apply(manifest, "--dry-run=server", "--validate=strict", "--force-conflicts")
        assert outcome.ok, (manifest, outcome.text)


def test_installed(release: Any) -> None:
    deployments = release.kubectl.get("deployments", f"--namespace={NAMESPACE}")["items"]
    assert {item["metadata"]["name"] for item in deployments} == {"rowen-operator", "rowen-scheduler"}
    labels = release.kubectl.get("namespace", "rowen-agent")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_notes_say_what_to_do_next(release: Any) -> None:
    assert "kubectl get nodeharvests" in release.notes
    assert "helm test" in release.notes
    assert "No devices are shared yet" not in release.notes


def _pod(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": spec}


@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS.keys())
def test_pod_security_admits_what_it_should(release: Any, values: Values) -> None:
    """Each pod is created, on a dry run, as its controller would: in the restricted namespace, and the agent's not."""
    for name, spec in pod_specs(render(values)).items():
        spec = {**spec, "priorityClassName": None}
        restricted = release.kubectl.with_arguments(f"--namespace={NAMESPACE}")
        agents = release.kubectl.with_arguments("--namespace=rowen-agent")
        outcome = restricted.apply(_pod(spec), "--dry-run=server")
        if name.startswith("DaemonSet/"):
            assert 'violates PodSecurity "restricted' in outcome.text
            outcome = agents.apply(_pod(spec), "--dry-run=server")
        assert outcome.ok, (name, outcome.text)


def test_upgrade_and_rollback(release: Any) -> None:
    switched = {**FULL, "agent": {"devices": []}, "operator": {}, "scheduler": {}, "monitoring": {}}
    common = (RELEASE, f"--namespace={NAMESPACE}")
    outcome = helm("upgrade", *common, str(CHART), values=switched, kubeconfig=release.kubeconfig)
    assert outcome.ok, outcome.text
    assert "No devices are shared yet" in outcome.text
    outcome = helm("rollback", *common, "1", kubeconfig=release.kubeconfig)
    assert outcome.ok, outcome.text


def test_a_second_release_stands_beside_the_first_and_leaves_definitions_and_objects(release: Any) -> None:
    kubectl = release.kubectl.with_arguments("--namespace=second")
    assert kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "second"}}).ok
    job = {
        "apiVersion": "rowen.dev/v1alpha1", "kind": "OfflineJob", "metadata": {"name": "kept"},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "a:1"}]}}},
    }  # fmt: skip
    common = ("second", "--namespace=second")
    values = {"agent": {"namespace": "second-agents"}}
    outcome = helm("install", *common, str(CHART), values=values, kubeconfig=release.kubeconfig)
    assert outcome.ok, outcome.text
    assert kubectl.apply(job).ok
    assert helm("uninstall", *common, kubeconfig=release.kubeconfig).ok
    assert kubectl.get("ojob", "kept")
