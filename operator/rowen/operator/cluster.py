"""Everything the operator asks of the API server."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any, cast

import httpx
import kr8s
from kr8s.asyncio import Api

from rowen.crds.apply import apply, apply_status
from rowen.crds.names import OPERATOR_MANAGER
from rowen.operator.decision import Note, Removal
from rowen.operator.resources import JOBS, PODS, Resource
from rowen.operator.timestamps import rfc3339

Manifest = Mapping[str, Any]
TIMEOUT_SECONDS = 10.0
LIST_TIMEOUT_SECONDS = 60.0
_POST_PAUSES_SECONDS = (0.1, 0.4, 1.6)
CONFLICT = 409
_GONE_OR_REPLACED = (404, CONFLICT)


class Cluster:
    """The API server, through kr8s."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def listing(self, resource: Resource) -> tuple[list[dict[str, Any]], int]:
        """All objects of a kind, and the resource version of the listing."""
        async with self._api.call_api(
            "GET",
            version=resource.api_version,
            url=resource.plural,
            params={"labelSelector": resource.selector} if resource.selector else {},
            timeout=LIST_TIMEOUT_SECONDS,
        ) as response:
            body = response.json()
        # Entries of a list come without these two.
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**head, **item} for item in body["items"]], int(body["metadata"]["resourceVersion"])

    async def apply(self, manifest: Manifest) -> dict[str, Any]:
        """Applies a child. Raises `kr8s.ServerError` when it is refused."""
        return await apply(self._api, dict(manifest), manager=OPERATOR_MANAGER)

    async def create_pod(self, manifest: Manifest) -> dict[str, Any]:
        """Creates a pod and returns it, or the one of that name that is there already.

        Not by apply: unknown fields of a user's template are named in the answer, and a stranger's pod is left alone.
        Raises `kr8s.ServerError` when it is refused, `kr8s.APITimeoutError` and `httpx.TransportError` when no answer
        comes; the pod may be there then.
        """
        metadata = manifest["metadata"]
        params = {"fieldManager": OPERATOR_MANAGER, "fieldValidation": "Strict"}
        try:
            made = await self._post(metadata["namespace"], "pods", manifest, params=params)
            return cast("dict[str, Any]", made.json())
        except kr8s.ServerError as error:
            if status_code(error) != CONFLICT:
                raise
        async with self._api.call_api(
            "GET",
            version="v1",
            namespace=metadata["namespace"],
            url=f"pods/{metadata['name']}",
            timeout=TIMEOUT_SECONDS,
        ) as response:
            return cast("dict[str, Any]", response.json())

    async def write_status(self, owner: Manifest, status: Mapping[str, Any]) -> dict[str, Any]:
        """Applies the operator's part of the owner's status; the uid keeps it off a successor of the same name."""
        metadata = {name: owner["metadata"][name] for name in ("name", "namespace", "uid")}
        manifest = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "metadata": metadata,
            "status": dict(status),
        }
        return await apply_status(self._api, manifest, manager=OPERATOR_MANAGER)

    async def remove_pod(self, namespace: str, removal: Removal) -> None:
        """Deletes a pod; one that is gone or was replaced is no error."""
        await self._delete(PODS, namespace, removal.pod, removal.uid, grace_seconds=0 if removal.force else None)

    async def delete_job(self, job: Manifest) -> None:
        """Deletes a job; its pods follow."""
        metadata = job["metadata"]
        await self._delete(JOBS, metadata["namespace"], metadata["name"], metadata["uid"])

    async def post(self, owner: Manifest, note: Note, now: float) -> None:
        """Posts an event. Its name follows from what it says, so that a repetition within its life is not posted."""
        metadata = owner["metadata"]
        digest = hashlib.sha256(f"{metadata['uid']} {note.reason} {note.message}".encode()).hexdigest()[:16]
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.{digest}", "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                **{name: metadata[name] for name in ("name", "namespace", "uid")},
            },
            "type": note.type,
            "reason": note.reason,
            "message": note.message[:1024],
            "source": {"component": OPERATOR_MANAGER},
            "firstTimestamp": rfc3339(now),
            "lastTimestamp": rfc3339(now),
            "count": 1,
        }
        # It follows the status that it speaks of, so no later reconcile would post it.
        await self._post(metadata["namespace"], "events", event, raise_for_status=False)

    async def _post(self, namespace: str, plural: str, manifest: Manifest, **options: Any) -> httpx.Response:
        # kr8s closes the connections of all calls when one of them is forbidden; what was lost in that way goes
        # through soon after. Names are fixed, so that nothing is made twice.
        for pause in _POST_PAUSES_SECONDS:
            try:
                return await self._post_once(namespace, plural, manifest, **options)
            except httpx.TransportError:
                await asyncio.sleep(pause)
        return await self._post_once(namespace, plural, manifest, **options)

    async def _post_once(self, namespace: str, plural: str, manifest: Manifest, **options: Any) -> httpx.Response:
        async with self._api.call_api(
            "POST", version="v1", namespace=namespace, url=plural, json=manifest, timeout=TIMEOUT_SECONDS, **options
        ) as response:
            return response

    async def _delete(
        self, resource: Resource, namespace: str, name: str, uid: str, *, grace_seconds: int | None = None
    ) -> None:
        options: dict[str, Any] = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            async with self._api.call_api(
                "DELETE",
                version=resource.api_version,
                namespace=namespace,
                url=f"{resource.plural}/{name}",
                json=options,
                timeout=TIMEOUT_SECONDS,
            ):
                pass
        except kr8s.ServerError as error:
            if status_code(error) not in _GONE_OR_REPLACED:
                raise


def status_code(error: kr8s.ServerError) -> int:
    """HTTP status of the API server's answer; 0 where there is none."""
    return error.response.status_code if error.response is not None else 0


def answer(error: kr8s.ServerError) -> str:
    """The API server's own words; kr8s keeps them only for what it calls a client's error."""
    try:
        return str(cast("httpx.Response", error.response).json()["message"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return str(error)
