"""What each component may do, asked of a real API server's RBAC."""

from typing import Any

import pytest
from helm import NAMESPACE

OPERATOR = f"system:serviceaccount:{NAMESPACE}:rowen-operator"
SCHEDULER = f"system:serviceaccount:{NAMESPACE}:rowen-scheduler"
GATEWAY = f"system:serviceaccount:{NAMESPACE}:rowen-gateway"
AGENT = "system:serviceaccount:rowen-agent:rowen-agent"

MAY = [
    (OPERATOR, "create", "pods", "default"),
    (OPERATOR, "delete", "pods", "default"),
    (OPERATOR, "patch", "pods", "default"),
    (OPERATOR, "patch", "deployments.apps", "default"),
    (OPERATOR, "patch", "offlinejobs.rowen.dev/status", "default"),
    (OPERATOR, "delete", "offlinejobs.rowen.dev", "default"),
    (OPERATOR, "watch", "nodeharvests.rowen.dev", ""),
    (OPERATOR, "create", "events", "default"),
    (OPERATOR, "create", "leases.coordination.k8s.io", NAMESPACE),
    (OPERATOR, "get", "leases.coordination.k8s.io/rowen-operator", NAMESPACE),
    (OPERATOR, "update", "leases.coordination.k8s.io/rowen-operator", NAMESPACE),
    (SCHEDULER, "watch", "offlinejobs.rowen.dev", "default"),
    (SCHEDULER, "patch", "offlinejobs.rowen.dev/status", "default"),
    (SCHEDULER, "list", "nodes", ""),
    *[(SCHEDULER, verb, f"persistentvolume{kind}", "") for verb in ("list", "watch") for kind in ("claims", "s")],
    (SCHEDULER, "patch", "configmaps/rowen-profiles", NAMESPACE),
    (SCHEDULER, "create", "configmaps", NAMESPACE),
    (SCHEDULER, "update", "leases.coordination.k8s.io/rowen-scheduler", NAMESPACE),
    (SCHEDULER, "create", "leases.coordination.k8s.io", NAMESPACE),
    (SCHEDULER, "create", "tokenreviews.authentication.k8s.io", ""),
    (SCHEDULER, "create", "subjectaccessreviews.authorization.k8s.io", ""),
    *[("viewer", verb, "offlinejobs.rowen.dev", "default") for verb in ("get", "list", "watch")],
    ("viewer", "list", "onlineservices.rowen.dev", "default"),
    ("editor", "create", "offlinejobs.rowen.dev", "default"),
    ("editor", "patch", "onlineservices.rowen.dev", "default"),
    ("editor", "patch", "onlineservices.rowen.dev/scale", "default"),
    (AGENT, "patch", "nodeharvests.rowen.dev", ""),
    (AGENT, "patch", "nodeharvests.rowen.dev/status", ""),
    (AGENT, "list", "pods", ""),
    (AGENT, "watch", "pods", ""),
    (AGENT, "create", "leases.coordination.k8s.io", "rowen-agent"),
    (AGENT, "patch", "leases.coordination.k8s.io", "rowen-agent"),
    (AGENT, "update", "leases.coordination.k8s.io", "rowen-agent"),
    *[
        (reader, verb, "leases.coordination.k8s.io", "rowen-agent")
        for reader in (OPERATOR, SCHEDULER)
        for verb in ("list", "watch")
    ],
]

MAY_NOT = [
    (OPERATOR, "get", "secrets", "default"),
    (OPERATOR, "update", "pods", "default"),
    (OPERATOR, "patch", "pods/status", "default"),
    (OPERATOR, "patch", "nodeharvests.rowen.dev/status", ""),
    (OPERATOR, "patch", "offlinejobs.rowen.dev", "default"),
    (OPERATOR, "patch", "statefulsets.apps", "default"),
    (OPERATOR, "create", "clusterrolebindings.rbac.authorization.k8s.io", ""),
    (OPERATOR, "create", "pods/exec", "default"),
    (OPERATOR, "update", "leases.coordination.k8s.io/rowen-scheduler", NAMESPACE),
    (OPERATOR, "update", "leases.coordination.k8s.io/rowen-operator", "default"),
    (OPERATOR, "create", "leases.coordination.k8s.io", "default"),
    (OPERATOR, "list", "events", "default"),
    (SCHEDULER, "create", "pods", "default"),
    (SCHEDULER, "get", "secrets", NAMESPACE),
    *[
        (SCHEDULER, verb, f"persistentvolume{kind}", "")
        for verb in ("create", "patch", "delete")
        for kind in ("claims", "s")
    ],
    (SCHEDULER, "patch", "persistentvolumeclaims/status", "default"),
    (OPERATOR, "list", "persistentvolumeclaims", "default"),
    (AGENT, "list", "persistentvolumes", ""),
    # It acts with its callers' tokens.
    *[(GATEWAY, verb, "offlinejobs.rowen.dev", "default") for verb in ("get", "list", "create", "patch", "delete")],
    (GATEWAY, "list", "onlineservices.rowen.dev", "default"),
    (GATEWAY, "create", "tokenreviews.authentication.k8s.io", ""),
    (GATEWAY, "create", "subjectaccessreviews.authorization.k8s.io", ""),
    (GATEWAY, "get", "secrets", NAMESPACE),
    (SCHEDULER, "patch", "offlinejobs.rowen.dev", "default"),
    (SCHEDULER, "patch", "configmaps/other", NAMESPACE),
    (SCHEDULER, "get", "configmaps/rowen-profiles", "default"),
    (SCHEDULER, "update", "leases.coordination.k8s.io/other", NAMESPACE),
    (SCHEDULER, "update", "leases.coordination.k8s.io/rowen-scheduler", "default"),
    (SCHEDULER, "create", "leases.coordination.k8s.io", "kube-system"),
    (SCHEDULER, "patch", "nodeharvests.rowen.dev/status", ""),
    (SCHEDULER, "create", "services/proxy", NAMESPACE),
    ("system:serviceaccount:default:anybody", "create", "services/proxy", NAMESPACE),
    (SCHEDULER, "create", "localsubjectaccessreviews.authorization.k8s.io", "default"),
    (SCHEDULER, "create", "serviceaccounts/token", NAMESPACE),
    ("viewer", "create", "offlinejobs.rowen.dev", "default"),
    ("viewer", "patch", "offlinejobs.rowen.dev", "default"),
    ("viewer", "list", "offlinejobs.rowen.dev", NAMESPACE),
    *[
        ("editor", verb, f"{kind}.rowen.dev/status", "default")
        for verb in ("update", "patch")
        for kind in ("offlinejobs", "onlineservices")
    ],
    ("editor", "list", "nodeharvests.rowen.dev", ""),
    ("editor", "create", "services/proxy", NAMESPACE),
    (OPERATOR, "create", "tokenreviews.authentication.k8s.io", ""),
    (AGENT, "create", "tokenreviews.authentication.k8s.io", ""),
    (AGENT, "get", "secrets", "default"),
    (AGENT, "delete", "pods", "default"),
    (AGENT, "get", "pods", "default"),
    (AGENT, "get", "nodes", ""),
    (AGENT, "patch", "nodes", ""),
    (AGENT, "get", "nodeharvests.rowen.dev", ""),
    (AGENT, "delete", "nodeharvests.rowen.dev", ""),
    (AGENT, "get", "offlinejobs.rowen.dev", "default"),
    (AGENT, "create", "pods/exec", "default"),
    (AGENT, "list", "leases.coordination.k8s.io", "rowen-agent"),
    (AGENT, "delete", "leases.coordination.k8s.io", "rowen-agent"),
    (AGENT, "patch", "leases.coordination.k8s.io", NAMESPACE),
    (AGENT, "update", "leases.coordination.k8s.io", "kube-node-lease"),
    (AGENT, "patch", "leases.coordination.k8s.io", "kube-node-lease"),
    *[
        (reader, verb, "leases.coordination.k8s.io", namespace)
        for reader in (OPERATOR, SCHEDULER)
        for verb, namespace in (("patch", "rowen-agent"), ("list", NAMESPACE), ("watch", "kube-node-lease"))
    ],
]


def _can(release: Any, user: str, verb: str, resource: str, namespace: str) -> str:
    resource, _, part = resource.partition("/")
    words = ["auth", "can-i", verb, resource, f"--as={user}"]
    if part in ("status", "exec", "token", "proxy", "scale"):
        words.append(f"--subresource={part}")
    elif part:
        words[3] = f"{resource}/{part}"
    words += [f"--namespace={namespace}"] if namespace else []
    return str(release.kubectl.run(*words).text.split()[-1])


@pytest.mark.parametrize(("user", "verb", "resource", "namespace"), MAY)
def test_may(release: Any, user: str, verb: str, resource: str, namespace: str) -> None:
    assert _can(release, user, verb, resource, namespace) == "yes"


@pytest.mark.parametrize(("user", "verb", "resource", "namespace"), MAY_NOT)
def test_may_not(release: Any, user: str, verb: str, resource: str, namespace: str) -> None:
    assert _can(release, user, verb, resource, namespace) == "no"
