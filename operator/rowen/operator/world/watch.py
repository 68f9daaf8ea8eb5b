"""kopf's part: it watches, and hands every event over. No handler of kopf's changes an object.

Handlers are coroutines, so that kopf calls them on the event loop, where the store and the queue are used; plain
functions it calls in a pool of threads.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

import kopf

from rowen.crds.names import GROUP
from rowen.kube.listing import PAGE
from rowen.kube.resource import Resource
from rowen.operator.world.resources import WATCHED

OnEvent = Callable[[str, dict[str, Any], bool], None]
"""Called with the kind, the object, and whether it was deleted."""


class NothingHandled(kopf.DiffBaseStorage):
    """Where kopf would keep what it has last handled of an object, for handlers of changes: there are none.

    Its own storages copy the object at every event: an eighth of the operator's time where much happens.
    """

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        """Nothing of the object matters."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Nothing was stored."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nothing is stored."""


class Backoffs(Iterable[float]):
    """Seconds before each further try of one of kopf's requests, without an end: after the last one kopf gives up."""

    def __iter__(self) -> Iterator[float]:
        yield from (1.0, 2.0, 4.0, 8.0)
        yield from repeat(10.0)


def registry(on_event: OnEvent, is_alive: Callable[[], bool], on_end: Callable[[], None]) -> kopf.OperatorRegistry:
    """Handlers that pass on every event of the watched kinds, the liveness probe, and that the process is to end."""
    handlers = kopf.OperatorRegistry()
    # Signals come to kopf. It waits some seconds for tasks that it does not know: they are told to end.
    kopf.on.cleanup(id="end", registry=handlers)(_end(on_end))
    kopf.on.login(registry=handlers)(_login)
    kopf.on.probe(id="watch", errors=kopf.ErrorsMode.PERMANENT, registry=handlers)(_probe(is_alive))
    for resource in WATCHED:
        watch = kopf.on.event(resource.group, resource.version, resource.plural, id=resource.plural, registry=handlers)
        watch(_handler(resource, on_event))
    return handlers


def settings() -> kopf.OperatorSettings:
    """Time-outs that end a dead connection, listings by pages, no posting of kopf's own events, nothing dynamic.

    What is refused, or gets no answer, is asked for again as long as it takes: a kind that may not be watched ends no
    watch of another one. And no peering: of several operators the lease chooses.
    """
    wanted = kopf.OperatorSettings()
    wanted.watching.server_timeout = 120
    wanted.watching.client_timeout = 150
    wanted.watching.connect_timeout = 5
    wanted.watching.chunk_size = PAGE
    wanted.networking.request_timeout = 10
    wanted.networking.error_backoffs = Backoffs()
    wanted.peering.standalone = True
    wanted.posting.enabled = False
    wanted.scanning.disabled = True
    wanted.persistence.diffbase_storage = NothingHandled()
    # No object has it. kopf takes this finalizer off whatever is deleted, and its own name may be another operator's.
    wanted.persistence.finalizer = f"{GROUP}/operator"
    wanted.process.ultimate_exiting_timeout = 10
    for resource in WATCHED:
        if resource.selector:
            where = (resource.group, resource.version, resource.plural)
            wanted.watching.label_selectors[where] = resource.selector
    return wanted


def _handler(resource: Resource, on_event: OnEvent) -> Callable[..., Awaitable[None]]:
    async def handle(*, event: dict[str, Any], **_: object) -> None:
        on_event(resource.kind, dict(event["object"]), event["type"] == "DELETED")

    return handle


def _end(on_end: Callable[[], None]) -> Callable[..., Awaitable[None]]:
    async def end(**_: object) -> None:
        on_end()

    return end


def _probe(is_alive: Callable[[], bool]) -> Callable[..., Awaitable[bool]]:
    async def probe(**_: object) -> bool:
        if not is_alive():
            raise kopf.PermanentError("the watch does not deliver changes that a listing shows")
        return True

    return probe


def _login(**arguments: Any) -> kopf.ConnectionInfo | None:
    # In a thread: it reads files and nothing of the operator's. In the order of `rowen.kube`: both are one user.
    if os.environ.get("KUBECONFIG"):
        return kopf.login_with_kubeconfig(**arguments)
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
