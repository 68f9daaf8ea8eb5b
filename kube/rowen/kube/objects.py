"""Single objects: server-side apply with one field manager per component, creation, deletion, events.

Nothing is read, changed and written back, but for leases. Everything raises `KubeError`.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

from rowen.kube.client import APPLY, MERGE, TIMEOUT_SECONDS, Client, Raw
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import EVENTS
from rowen.kube.listing import WHOLE_SECONDS, listing
from rowen.kube.resource import Resource
from rowen.kube.timestamps import rfc3339

NOT_FOUND, CONFLICT = 404, 409
_MESSAGE_CHARACTERS = 1024
_NAME_CHARACTERS = 230
"""What the API server takes of an event's message, and of its name beside the digest."""

Manifest = Mapping[str, Any]


async def get(client: Client, resource: Resource, namespace: str | None, name: str) -> Raw:
    """One object."""
    return await client.call("GET", resource.path(namespace, name))


async def list_all(
    client: Client,
    resource: Resource,
    *,
    namespace: str | None = None,
    field_selector: str | None = None,
    most_seconds: float = WHOLE_SECONDS,
) -> list[Raw]:
    """All objects, of one namespace where it is given; no request takes longer than `most_seconds`."""
    found = await listing(
        client, resource, namespace=namespace, field_selector=field_selector, most_seconds=most_seconds
    )
    return list(found.items)


async def create(client: Client, resource: Resource, manifest: Manifest, *, manager: str, dry_run: bool = False) -> Raw:
    """Makes an object and returns it as stored. A field that its kind does not have is an error, and named.

    A dry run is checked like any other, and nothing is stored.
    """
    query = {"fieldManager": manager, "fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
    path = resource.path(manifest["metadata"].get("namespace"))
    return await client.call("POST", path, query=query, body=manifest)


async def apply(
    client: Client, resource: Resource, manifest: Manifest, *, manager: str, timeout_seconds: float = TIMEOUT_SECONDS
) -> Raw:
    """Applies the manifest with force and returns the object as stored.

    Fields that the manager applied before and that the manifest lacks are removed. A `resourceVersion` in its metadata
    makes it fail with 409 when the object has changed since.
    """
    return await _apply(client, resource, manifest, manager, None, timeout_seconds)


async def apply_status(
    client: Client, resource: Resource, manifest: Manifest, *, manager: str, timeout_seconds: float = TIMEOUT_SECONDS
) -> Raw:
    """Like `apply`, for the status subresource; the manifest holds apiVersion, kind, metadata and status."""
    return await _apply(client, resource, manifest, manager, "status", timeout_seconds)


async def drop_status(
    client: Client,
    resource: Resource,
    namespace: str | None,
    name: str,
    *,
    manager: str,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> None:
    """Takes an object's status away, whatever is in it."""
    await client.call(
        "PATCH",
        resource.path(namespace, name, "status"),
        query={"fieldManager": manager},
        body={"status": None},
        content_type=MERGE,
        timeout_seconds=timeout_seconds,
    )


async def _apply(
    client: Client, resource: Resource, manifest: Manifest, manager: str, subresource: str | None, seconds: float
) -> Raw:
    metadata = manifest["metadata"]
    return await client.call(
        "PATCH",
        resource.path(metadata.get("namespace"), metadata["name"], subresource),
        query={"fieldManager": manager, "force": "true"},
        body=manifest,
        # JSON is YAML.
        content_type=APPLY,
        timeout_seconds=seconds,
    )


async def replace(
    client: Client, resource: Resource, manifest: Manifest, *, manager: str, timeout_seconds: float = TIMEOUT_SECONDS
) -> Raw:
    """Stores an object as it was read but for what the caller has changed; returns it as stored.

    It fails with 409 where the object has changed since, or is another one. Of a small object it is a fifth less work
    for the API server than `apply`, which merges fields by their owners.
    """
    metadata = manifest["metadata"]
    return await client.call(
        "PUT",
        resource.path(metadata.get("namespace"), metadata["name"]),
        query={"fieldManager": manager},
        body=manifest,
        timeout_seconds=timeout_seconds,
    )


async def delete(
    client: Client,
    resource: Resource,
    namespace: str | None,
    name: str,
    *,
    uid: str | None = None,
    grace_seconds: int | None = None,
) -> None:
    """Deletes an object, with what belongs to it. One that is gone, or has another uid, is no error."""
    options: dict[str, Any] = {"propagationPolicy": "Background"}
    if uid is not None:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    try:
        await client.call("DELETE", resource.path(namespace, name), body=options)
    except RefusedError as error:
        if error.status not in (NOT_FOUND, CONFLICT):
            raise


async def post_event(
    client: Client,
    owner: Manifest,
    *,
    type: Literal["Normal", "Warning"],  # noqa: A002
    reason: str,
    message: str,
    component: str,
    now: float,
) -> None:
    """Posts an event about `owner`; `now` is in Unix seconds.

    Its name follows from what it says, so that a repetition within its life is no second event.
    """
    metadata = owner["metadata"]
    digest = hashlib.sha256(f"{metadata['uid']} {reason} {message}".encode()).hexdigest()[:16]
    # Events of what has no namespace lie in the default one.
    namespace = metadata.get("namespace") or "default"
    about = {name: metadata[name] for name in ("name", "namespace", "uid") if name in metadata}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name'][:_NAME_CHARACTERS]}.{digest}", "namespace": namespace},
        "involvedObject": {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **about},
        "type": type,
        "reason": reason,
        "message": message[:_MESSAGE_CHARACTERS],
        "source": {"component": component},
        "firstTimestamp": rfc3339(now),
        "lastTimestamp": rfc3339(now),
        "count": 1,
    }
    try:
        await create(client, EVENTS, event, manager=component)
    except RefusedError as error:
        if error.status != CONFLICT:
            raise
