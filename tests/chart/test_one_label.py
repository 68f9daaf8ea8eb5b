"""The operator, with its own token, changes no more of a pod than one label."""

import json
import time
from typing import Any

import pytest
from apiserver import ApiServer
from chart.test_own_node import token_kubeconfig
from helm import NAMESPACE
from kubectl import Kubectl

_POLICY_SECONDS = 30.0


@pytest.fixture
def operator(api_server: ApiServer, release: Any) -> Kubectl:
    """kubectl with the operator's token, and a pod of somebody else's."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "llm-0", "namespace": "default", "labels": {"app": "llm"}},
        "spec": {"containers": [{"name": "engine", "image": "a:1"}], "serviceAccountName": "default"},
    }
    admin = release.kubectl
    assert admin.apply(pod).ok
    token = admin.with_arguments(f"--namespace={NAMESPACE}").run("create", "token", "rowen-operator").text.strip()
    folder = api_server.authority.folder
    return Kubectl(token_kubeconfig(api_server, token, folder / "operator.kubeconfig"))


def _patched(operator: Kubectl, change: dict[str, Any], *flags: str) -> Any:
    return operator.run("patch", "pod", "llm-0", "-n", "default", "--type=merge", "-p", json.dumps(change), *flags)


IMAGE = {"spec": {"containers": [{"name": "engine", "image": "theirs:1"}]}}


def _until_refused(operator: Kubectl) -> str:
    """A policy takes a moment to be enforced after its creation."""
    deadline = time.monotonic() + _POLICY_SECONDS
    while True:
        outcome = _patched(operator, IMAGE, "--dry-run=server")
        if not outcome.ok or time.monotonic() > deadline:
            return str(outcome.text)
        time.sleep(0.2)


def test_one_label_and_nothing_else(operator: Kubectl) -> None:
    said = "changes no more of a pod than its label rowen.dev/service"
    assert said in _until_refused(operator)
    others: list[dict[str, Any]] = [
        {"labels": {"app": "other"}},
        {"labels": {"app": None}},
        {"labels": {"more": "x"}},
        {"annotations": {"more": "x"}},
        {"finalizers": ["rowen.dev/x"]},
    ]
    for metadata in others:
        assert said in _patched(operator, {"metadata": metadata}).text, metadata
    for value in ("chat", "other", None):
        assert _patched(operator, {"metadata": {"labels": {"rowen.dev/service": value}}}).ok
