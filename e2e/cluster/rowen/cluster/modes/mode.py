"""Which kind of cluster the commands work on."""

import os
from enum import StrEnum

from rowen.cluster.errors import ClusterError
from rowen.cluster.process.shell import succeeds


class Mode(StrEnum):
    """Where the cluster comes from."""

    LOCAL = "local"
    KIND = "kind"
    EXISTING = "existing"


def docker_answers() -> bool:
    """Whether a Docker engine is there; the client alone is not enough."""
    return succeeds(["docker", "info"], timeout=20)


def given() -> Mode | None:
    """CLUSTER; None where the user leaves the choice to us."""
    value = os.environ.get("CLUSTER", "")
    try:
        return Mode(value) if value else None
    except ValueError:
        raise ClusterError(f"CLUSTER={value}: it may be {', '.join(Mode)}") from None


def current() -> Mode:
    """CLUSTER, or kind where a Docker engine answers, or local."""
    return given() or (Mode.KIND if docker_answers() else Mode.LOCAL)
