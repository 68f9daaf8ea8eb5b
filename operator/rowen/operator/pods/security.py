"""Parts of a pod that satisfy the restricted Pod Security profile."""

from typing import Any

UID = 65532


def pod_security_context() -> dict[str, Any]:
    """Security context of a pod: an ordinary user that may write to its volumes."""
    return {
        "runAsNonRoot": True,
        "runAsUser": UID,
        "runAsGroup": UID,
        "fsGroup": UID,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security_context() -> dict[str, Any]:
    """Security context of a container: no capability, nothing writable but its volumes."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
