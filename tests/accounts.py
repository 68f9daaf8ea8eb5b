"""Service accounts with tokens and rights, on a real API server."""

from typing import Any

from manifests import apply

from rowen.kube.client import Client

_RBAC = "rbac.authorization.k8s.io/v1"


async def account(kube: Client, namespace: str, name: str) -> None:
    """Makes a service account."""
    meta = {"name": name, "namespace": namespace}
    await apply(kube, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}, manager="test")


async def token(kube: Client, namespace: str, name: str, **spec: Any) -> str:
    """A token of the account, by TokenRequest."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str((await kube.call("POST", path, body=body))["status"]["token"])


async def allow(kube: Client, namespace: str, name: str, *rules: dict[str, list[str]]) -> None:
    """Grants the account of that name rights in the namespace, and no others."""
    meta = {"name": name, "namespace": namespace}
    await apply(kube, {"apiVersion": _RBAC, "kind": "Role", "metadata": meta, "rules": [*rules]}, manager="test")
    await bind(kube, namespace, name, name, name)


async def bind(kube: Client, namespace: str, name: str, role: str, account: str) -> None:
    """Binds the account to a role of the namespace."""
    meta = {"name": name, "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
    binding = {"apiVersion": _RBAC, "kind": "RoleBinding", "metadata": meta, "roleRef": reference}
    await apply(kube, {**binding, "subjects": subjects}, manager="test")


def rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> dict[str, list[str]]:
    """A rule of a Role."""
    return {"apiGroups": [group], "resources": resources, "verbs": verbs} | ({"resourceNames": names} if names else {})
