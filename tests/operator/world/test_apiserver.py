"""The test API server enforces the API: CRDs with their CEL rules, and RBAC."""

from typing import Any

import pytest
from apiserver import ApiServer
from manifests import apply

from rowen.kube.client import Client
from rowen.kube.errors import RefusedError


def _job(namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "rowen.dev/v1alpha1",
        "kind": "OfflineJob",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": spec,
    }


async def test_refuses_a_job_without_work(kube: Client, namespace: str) -> None:
    with pytest.raises(RefusedError, match="exactly one of fineTune, batchInference, template"):
        await apply(kube, _job(namespace, {}), manager="test")


async def test_refuses_a_stranger(api_server: ApiServer, namespace: str) -> None:
    async with await api_server.open(api_server.kubeconfig_for("stranger")) as stranger:
        with pytest.raises(RefusedError, match='User "stranger" cannot patch'):
            await apply(stranger, _job(namespace, {"template": {}}), manager="test")
