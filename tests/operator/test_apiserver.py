"""The test API server enforces the API: CRDs with their CEL rules, and RBAC."""

from typing import Any

import kr8s
import kr8s.asyncio
import pytest
from apiserver import ApiServer

from rowen.crds.apply import apply


def _job(namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "rowen.dev/v1alpha1",
        "kind": "OfflineJob",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": spec,
    }


async def test_refuses_a_job_without_work(kube: kr8s.asyncio.Api, namespace: str) -> None:
    with pytest.raises(kr8s.ServerError, match="exactly one of fineTune, batchInference, template"):
        await apply(kube, _job(namespace, {}), manager="test")


async def test_refuses_a_stranger(api_server: ApiServer, namespace: str) -> None:
    stranger = await api_server.client(api_server.kubeconfig_for("stranger"))
    with pytest.raises(kr8s.ServerError, match='User "stranger" cannot patch'):
        await apply(stranger, _job(namespace, {"template": {}}), manager="test")
