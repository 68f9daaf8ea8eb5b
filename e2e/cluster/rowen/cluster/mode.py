"""Which kind of cluster the commands work on."""

import os
from enum import StrEnum

from rowen.cluster.errors import ClusterError
from rowen.cluster.shell import succeeds


class Mode(StrEnum):
    """Where the cluster comes from."""

    LOCAL = "local"
    KIND = "kind"
    EXISTING = "existing"


def docker_answers() -> bool:
    """Whether a Docker engine is there; the client alone is not enough."""
    return succeeds(["docker", "info"], timeout=20)


def current() -> Mode:
    """CLUSTER, or kind where a Docker engine answers, or local."""
    given = os.environ.get("CLUSTER", "")
    if not given:
        return Mode.KIND if docker_answers() else Mode.LOCAL
    try:
        return Mode(given)
    except ValueError:
        raise ClusterError(f"CLUSTER={given}: it may be {', '.join(Mode)}") from None
