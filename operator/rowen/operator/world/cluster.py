"""Everything the operator asks of the API server."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from rowen.crds.names import OPERATOR_MANAGER, SERVICE_LABEL
from rowen.kube import objects
from rowen.kube.client import Client
from rowen.kube.election import ensure_held, lead
from rowen.kube.errors import RefusedError, UnreachableError
from rowen.kube.heartbeat import Beat, read_beat
from rowen.kube.informer import Informer
from rowen.kube.kinds import LEASES
from rowen.kube.listing import Listing, listing
from rowen.kube.objects import CONFLICT, NOT_FOUND
from rowen.kube.resource import Resource
from rowen.operator.decision import Note, Removal
from rowen.operator.world.resources import BY_KIND, JOBS, PODS
from rowen.operator.world.store import Key

Manifest = Mapping[str, Any]
LEASE = "rowen-operator"
"""In the operator's own namespace: who holds it decides, all others stand by."""
TOO_MANY = 429
_POST_SECONDS = 5.0
"""For so long a pod or event is posted again: a connection may end between two requests."""
_POST_PAUSE_SECONDS = 0.2
T = TypeVar("T")


class Cluster:
    """The API server. All methods raise `KubeError`; those that change objects do so where the lease has run out."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def lead(self, namespace: str | None, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does the work whenever no other operator is at it.

        The lease is in `namespace`; None: where the login says that one is.
        """
        await lead(self._client, namespace or self._client.namespace, LEASE, work)

    async def listing(self, resource: Resource, kept: Callable[[dict[str, Any]], dict[str, Any]]) -> Listing:
        """All objects of a kind; `kept` tells what stays of each."""
        return await listing(self._client, resource, kept=kept)

    def beats(self, namespace: str, heard: Callable[[Beat], None]) -> Informer[Beat]:
        """The nodes' heartbeats, which are in `namespace`; each new one is told."""
        return Informer(
            self._client, LEASES, read_beat, lambda _, new: heard(new) if new is not None else None, namespace
        )

    async def read(self, key: Key) -> dict[str, Any] | None:
        """The object as the API server has it; None where it is gone."""
        try:
            return await objects.get(self._client, BY_KIND[key.kind], key.namespace, key.name)
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise
            return None

    async def apply(self, manifest: Manifest) -> dict[str, Any]:
        """Applies a child."""
        ensure_held()
        return await objects.apply(self._client, BY_KIND[manifest["kind"]], dict(manifest), manager=OPERATOR_MANAGER)

    async def create_pod(self, manifest: Manifest) -> dict[str, Any]:
        """Creates a pod and returns it, or the one of that name that is there already.

        Not by apply: unknown fields of a user's template are named in the answer, and a stranger's pod is left alone.
        Where no answer came (`UnreachableError`), the pod may be there.
        """
        ensure_held()
        metadata = manifest["metadata"]
        try:
            return await _posted(lambda: objects.create(self._client, PODS, dict(manifest), manager=OPERATOR_MANAGER))
        except RefusedError as error:
            if error.status != CONFLICT:
                raise
        return await objects.get(self._client, PODS, metadata["namespace"], metadata["name"])

    async def try_pod(self, manifest: Manifest) -> None:
        """Has the API server judge a pod in a dry run."""
        await objects.create(self._client, PODS, dict(manifest), manager=OPERATOR_MANAGER, dry_run=True)

    async def label_pod(self, pod: Manifest, service: str) -> None:
        """Says on a pod that somebody else made whose engine it is; one that is gone, or another one, is refused."""
        ensure_held()
        metadata = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "labels": {SERVICE_LABEL: service}}}
        await objects.apply(self._client, PODS, manifest, manager=OPERATOR_MANAGER)

    async def write_status(self, owner: Manifest, status: Mapping[str, Any]) -> dict[str, Any]:
        """Applies the operator's part of the owner's status, if the owner is still as it was decided on.

        The version keeps a decision off an object that has changed since; the answer is 409 then. It holds for every
        writer of the object, the scheduler's assignments among them: those are what a decision rests on. The uid keeps
        it off a successor of the same name.
        """
        ensure_held()
        metadata = {name: owner["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion")}
        manifest = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "metadata": metadata,
            "status": dict(status),
        }
        return await objects.apply_status(self._client, BY_KIND[owner["kind"]], manifest, manager=OPERATOR_MANAGER)

    async def remove_pod(self, namespace: str, removal: Removal) -> None:
        """Deletes a pod; one that is gone or was replaced is no error."""
        ensure_held()
        grace_seconds = 0 if removal.force else None
        await objects.delete(self._client, PODS, namespace, removal.pod, uid=removal.uid, grace_seconds=grace_seconds)

    async def delete_job(self, job: Manifest) -> None:
        """Deletes a job; its pods follow."""
        ensure_held()
        metadata = job["metadata"]
        await objects.delete(self._client, JOBS, metadata["namespace"], metadata["name"], uid=metadata["uid"])

    async def post(self, owner: Manifest, note: Note, now: float) -> None:
        """Posts an event; a repetition within its life is not posted."""
        await _posted(
            lambda: objects.post_event(
                self._client,
                owner,
                type=note.type,
                reason=note.reason,
                message=note.message,
                component=OPERATOR_MANAGER,
                now=now,
            )
        )


async def _posted(post: Callable[[], Awaitable[T]]) -> T:
    """Tried again where no answer came or the API server has too much to do. Nothing is made twice: names are fixed."""
    end = time.monotonic() + _POST_SECONDS
    while True:
        try:
            return await post()
        except UnreachableError:
            pause = _POST_PAUSE_SECONDS
            if time.monotonic() + pause > end:
                raise
        except RefusedError as error:
            pause = error.retry_after_seconds or _POST_PAUSE_SECONDS
            if error.status != TOO_MANY or time.monotonic() + pause > end:
                raise
        await asyncio.sleep(pause)
