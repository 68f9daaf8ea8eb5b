"""Server-side apply through kr8s: one field manager per component, never read-modify-write."""

import json
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from kr8s.asyncio import Api

_CONTENT_TYPE = "application/apply-patch+yaml"


def plural_of(kind: str) -> str:
    """The resource name of a kind by Kubernetes' own rule, e.g. `OnlineService` → `onlineservices`."""
    lower = kind.lower()
    if lower.endswith(("s", "x", "ch", "sh")):
        return f"{lower}es"
    if lower.endswith("y") and lower[-2] not in "aeiou":
        return f"{lower[:-1]}ies"
    return f"{lower}s"


async def apply(
    api: "Api", manifest: dict[str, Any], *, manager: str, plural: str | None = None, timeout_seconds: float = 10.0
) -> dict[str, Any]:
    """Applies the manifest with force and returns the object as stored.

    Fields that the manager applied before and that the manifest lacks are removed. The resource name is derived
    from the kind unless `plural` is given. Raises `kr8s.ServerError` when the API server refuses it,
    `kr8s.APITimeoutError` and `httpx.TransportError` when it does not answer.
    """
    return await _apply(api, manifest, manager, plural, timeout_seconds, subresource="")


async def apply_status(
    api: "Api", manifest: dict[str, Any], *, manager: str, plural: str | None = None, timeout_seconds: float = 10.0
) -> dict[str, Any]:
    """Like `apply`, for the status subresource; the manifest holds apiVersion, kind, metadata and status."""
    return await _apply(api, manifest, manager, plural, timeout_seconds, subresource="/status")


async def _apply(
    api: "Api", manifest: dict[str, Any], manager: str, plural: str | None, timeout_seconds: float, *, subresource: str
) -> dict[str, Any]:
    metadata = manifest["metadata"]
    async with api.call_api(
        "PATCH",
        version=manifest["apiVersion"],
        namespace=metadata.get("namespace"),
        url=f"{plural or plural_of(manifest['kind'])}/{metadata['name']}{subresource}",
        params={"fieldManager": manager, "force": "true"},
        headers={"Content-Type": _CONTENT_TYPE},
        # JSON is YAML; dumping it here keeps a YAML library out of the API package.
        content=json.dumps(manifest),
        timeout=timeout_seconds,
    ) as response:
        return cast("dict[str, Any]", response.json())
