"""CLUSTER=existing: whatever KUBECONFIG points at; nothing is started or stopped."""

import os

from rowen.cluster.console import step
from rowen.cluster.errors import ClusterError
from rowen.cluster.layout import Layout
from rowen.cluster.process.shell import run
from rowen.cluster.tools import tools


def path() -> str:
    """The kubeconfig the user gave."""
    given = os.environ.get("KUBECONFIG", "")
    if not given:
        raise ClusterError("CLUSTER=existing needs KUBECONFIG")
    return given


def up(layout: Layout) -> None:
    """Check that the cluster answers."""
    given = path()
    tools.ensure(layout)
    with step("Existing cluster") as now:
        run(["kubectl", "--request-timeout=10s", "get", "--raw", "/readyz"], timeout=20)
        now.note = given
