"""kubectl in a fresh namespace of the test API server."""

import pytest
from apiserver import ApiServer
from kubectl import Kubectl


@pytest.fixture
def kubectl(api_server: ApiServer, namespace: str) -> Kubectl:
    return Kubectl(api_server.kubeconfig, (f"--namespace={namespace}",))
