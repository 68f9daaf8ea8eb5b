"""The chart installed by helm on the test API server."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from apiserver import ApiServer
from helm import CHART, NAMESPACE, RELEASE, VALUE_SETS, helm
from kubectl import Kubectl

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


USERS = {"viewer": "view", "editor": "edit"}
"""Users, and the chart's role for the built-in one of that name, which each has in the namespace `default`."""


@dataclass(frozen=True)
class Release:
    """The installed chart."""

    kubeconfig: Path
    kubectl: Kubectl
    notes: str


@pytest.fixture(scope="session")
def release(api_server: ApiServer) -> Release:
    """Rowen with devices, in a namespace that enforces the restricted profile."""
    kubectl = Kubectl(api_server.kubeconfig)
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": RESTRICTED}}
    assert kubectl.apply(manifest).ok
    words = ("install", RELEASE, str(CHART), f"--namespace={NAMESPACE}")
    outcome = helm(*words, values=VALUE_SETS["devices"], kubeconfig=api_server.kubeconfig)
    assert outcome.ok, outcome.text
    for user, role in USERS.items():
        # The built-in roles gather these by their labels; that is a controller's work, which is not here.
        words = (f"--clusterrole={NAMESPACE}-{RELEASE}-{role}", f"--user={user}", "--namespace=default")
        assert kubectl.run("create", "rolebinding", user, *words).ok
    return Release(api_server.kubeconfig, kubectl, outcome.text)
