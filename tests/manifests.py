"""Manifests of any kind, to and from the test API server, as `kubectl` would bring them."""

from typing import Any

from rowen.kube import objects
from rowen.kube.client import Client
from rowen.kube.errors import RefusedError
from rowen.kube.resource import Resource

Raw = dict[str, Any]
_MERGE = "application/merge-patch+json"


def resource_of(manifest: Raw) -> Resource:
    """The resource of a manifest's kind; its plural by Kubernetes' own rule."""
    lower = manifest["kind"].lower()
    plural = f"{lower}s"
    if lower.endswith(("s", "x", "ch", "sh")):
        plural = f"{lower}es"
    elif lower.endswith("y"):
        plural = f"{lower[:-1]}ies"
    return Resource(manifest["kind"], manifest["apiVersion"], plural)


async def apply(client: Client, manifest: Raw, *, manager: str) -> Raw:
    """Applies it; returns it as stored."""
    return await objects.apply(client, resource_of(manifest), manifest, manager=manager)


async def apply_status(client: Client, manifest: Raw, *, manager: str) -> Raw:
    """Applies its status; returns the object as stored."""
    return await objects.apply_status(client, resource_of(manifest), manifest, manager=manager)


def path(version: str, namespace: str | None, url: str) -> str:
    """Of a list, an object or a subresource, e.g. `("v1", "team", "pods/a/status")`."""
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{url}" if namespace else f"{root}/{url}"


async def read(client: Client, version: str, namespace: str | None, url: str, **query: str) -> Raw | None:
    """An object or a list; None where there is none."""
    try:
        return await client.call("GET", path(version, namespace, url), query=query)
    except RefusedError as error:
        if error.status == 404:
            return None
        raise


async def patch(client: Client, version: str, namespace: str | None, url: str, body: Raw) -> None:
    """A merge patch."""
    await client.call("PATCH", path(version, namespace, url), body=body, content_type=_MERGE)


async def delete(client: Client, version: str, namespace: str | None, url: str, **options: Any) -> None:
    """A deletion."""
    await client.call("DELETE", path(version, namespace, url), body=options)
