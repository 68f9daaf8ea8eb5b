"""Leader election over a coordination `Lease`: of several processes that could do the same work, one does it.

As the other components of Kubernetes do it: a lease is judged by its change, on the reader's own monotonic clock, and
is written only by who has seen its newest version.
"""

import asyncio
import socket
import time
import uuid
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any

import structlog

from rowen.kube.client import Client, Raw
from rowen.kube.errors import KubeError, RefusedError
from rowen.kube.kinds import LEASES
from rowen.kube.objects import NOT_FOUND, replace
from rowen.kube.timestamps import rfc3339

_REMIND_SECONDS = 60.0
_HELD: ContextVar["_Lease"] = ContextVar("lease")
"""What the work is done under."""

log = structlog.get_logger()


class LostLeaseError(KubeError):
    """The lease was not renewed in time: another process may be at work."""


@dataclass(frozen=True)
class Terms:
    """Times of an election, in seconds. `lease` is longer than `renewal`, so that work ends before another begins."""

    lease: int = 15
    """So long after the last renewal that it has seen, another one takes over."""
    renewal: float = 10.0
    """So long a leader goes on that cannot renew."""
    retry: float = 2.0
    """Between two tries to get or renew the lease."""
    call: float = 3.0
    """The longest that one request may take."""


TERMS = Terms()


async def lead(
    client: Client, namespace: str, name: str, work: Callable[[], Coroutine[Any, Any, None]], terms: Terms = TERMS
) -> None:
    """Does the work whenever the lease is held, and stands by in between; returns when the work has ended by itself."""
    # A process of the same name in another pod's place is another one.
    identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    while not await run_as_leader(client, namespace, name, identity, work, terms):
        pass


def ensure_held() -> None:
    """For work that is about to write. Raises `LostLeaseError` where the lease that it is done under has run out.

    A process that stood still, or computed for long, goes on for a moment before its work is cancelled. Without a lease
    there is nothing to lose.
    """
    lease = _HELD.get(None)
    if lease is not None and lease.left_seconds() <= 0.0:
        raise LostLeaseError("the lease was not renewed in time")


async def run_as_leader(
    client: Client,
    namespace: str,
    name: str,
    identity: str,
    work: Callable[[], Coroutine[Any, Any, None]],
    terms: Terms = TERMS,
) -> bool:
    """Waits for the lease and runs `work` while it is held; True when the work has ended by itself.

    False when the lease is lost: the work has been cancelled then, and another one may be at it. What `work` raises is
    raised here. The lease is given back, so that the next one has not to wait for its end.
    """
    lease = _Lease(client, namespace, name, identity, terms)
    log.info("standing by", lease=name, identity=identity)
    await lease.acquire()
    log.info("leading", lease=name, identity=identity)
    context = copy_context()
    context.run(_HELD.set, lease)
    working = asyncio.create_task(work(), context=context)
    holding = asyncio.create_task(lease.hold())
    try:
        await asyncio.wait((working, holding), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            await working
            return True
        log.error("the lease is lost", lease=name, identity=identity)
        return False
    finally:
        for task in (working, holding):
            task.cancel()
        await asyncio.wait((working, holding))
        await lease.give_back()


class _Lease:
    """The lease, and what was seen of it."""

    def __init__(self, client: Client, namespace: str, name: str, identity: str, terms: Terms) -> None:
        self._client, self._terms, self._identity = client, terms, identity
        self._namespace, self._name = namespace, name
        self._seen: Raw | None = None
        self._seen_at = float("-inf")
        self._renewed = float("-inf")
        self._trouble = ""

    async def acquire(self) -> None:
        """Waits for the lease; one that waits for ever says so."""
        told = time.monotonic()
        while not await self.get_or_renew():
            await asyncio.sleep(self._terms.retry)
            if time.monotonic() - told >= _REMIND_SECONDS:
                told = time.monotonic()
                log.warning("still standing by", lease=self._name, holder=self._holder(), error=self._trouble)

    def left_seconds(self) -> float:
        """How long the work may go on without another renewal."""
        return self._renewed + self._terms.renewal - time.monotonic()

    async def get_or_renew(self) -> bool:
        """One try; whether the lease is held now."""
        began = time.monotonic()
        try:
            stored = await self._read()
            if not self._free(stored):
                return False
            await self._write(stored, self._spec(stored))
        except KubeError as error:
            self._tell(str(error))
            return False
        self._tell("")
        self._renewed = began
        return True

    async def hold(self) -> None:
        """Renews the lease; returns when it is lost or could not be renewed for too long."""
        while (left := self.left_seconds()) > 0.0:
            try:
                async with asyncio.timeout(left):
                    await asyncio.sleep(self._terms.retry)
                    held = await self.get_or_renew()
            except TimeoutError:
                return
            if not held and self._holder() not in ("", self._identity):
                return

    async def give_back(self) -> None:
        """Leaves the lease to the next one, if it is still held; a failure costs only time."""
        try:
            stored = await self._read()
            if stored is not None and self._holder() == self._identity:
                await self._write(stored, {**stored["spec"], "holderIdentity": None})
        except KubeError as error:
            self._tell(str(error))

    async def _read(self) -> Raw | None:
        path = LEASES.path(self._namespace, self._name)
        try:
            found = await self._client.call("GET", path, timeout_seconds=self._terms.call)
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise
            found = None
        spec = (found or {}).get("spec") or {}
        if spec != self._seen:
            self._seen, self._seen_at = spec, time.monotonic()
        return found

    def _holder(self) -> str:
        return str((self._seen or {}).get("holderIdentity") or "")

    def _free(self, stored: Raw | None) -> bool:
        if stored is None or self._holder() in ("", self._identity):
            return True
        length = (self._seen or {}).get("leaseDurationSeconds") or self._terms.lease
        return time.monotonic() >= self._seen_at + float(length)

    def _spec(self, stored: Raw | None) -> Raw:
        now, before = rfc3339(time.time(), "microseconds"), (stored or {}).get("spec") or {}
        taken = {} if self._holder() == self._identity else {
            "acquireTime": now, "leaseTransitions": int(before.get("leaseTransitions") or 0) + 1
        }  # fmt: skip
        own = {"holderIdentity": self._identity, "leaseDurationSeconds": self._terms.lease, "renewTime": now}
        return {**before, **taken, **own}

    async def _write(self, stored: Raw | None, spec: Raw) -> None:
        """Fails where another one has written since."""
        if stored is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            manifest = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
            path = LEASES.path(self._namespace)
            written = await self._client.call("POST", path, body=manifest, timeout_seconds=self._terms.call)
        else:
            manifest = {**stored, "spec": spec}
            written = await replace(
                self._client, LEASES, manifest, manager=self._name, timeout_seconds=self._terms.call
            )
        self._seen, self._seen_at = written.get("spec") or {}, time.monotonic()

    def _tell(self, trouble: str) -> None:
        """Says each trouble once, while it lasts."""
        if trouble and trouble != self._trouble:
            log.warning("the lease cannot be read or written", lease=self._name, error=trouble)
        self._trouble = trouble
