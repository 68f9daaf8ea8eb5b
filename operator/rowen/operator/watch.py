"""kopf's part: it watches, and hands every event over. No handler of kopf's changes an object.

Handlers are coroutines, so that kopf calls them on the event loop, where the store and the queue are used; plain
functions it calls in a pool of threads.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import kopf

from rowen.crds.names import GROUP
from rowen.operator.resources import WATCHED, Resource

OnEvent = Callable[[str, dict[str, Any], bool], None]
"""Called with the kind, the object, and whether it was deleted."""


def registry(on_event: OnEvent, is_alive: Callable[[], bool]) -> kopf.OperatorRegistry:
    """Handlers that pass on every event of the watched kinds, and the liveness probe."""
    handlers = kopf.OperatorRegistry()
    kopf.on.login(registry=handlers)(_login)
    kopf.on.probe(id="watch", errors=kopf.ErrorsMode.PERMANENT, registry=handlers)(_probe(is_alive))
    for resource in WATCHED:
        watch = kopf.on.event(resource.group, resource.version, resource.plural, id=resource.plural, registry=handlers)
        watch(_handler(resource, on_event))
    return handlers


def settings() -> kopf.OperatorSettings:
    """Time-outs that end a dead connection, no posting of kopf's own events, nothing dynamic."""
    wanted = kopf.OperatorSettings()
    wanted.watching.server_timeout = 120
    wanted.watching.client_timeout = 150
    wanted.watching.connect_timeout = 5
    wanted.networking.request_timeout = 10
    wanted.posting.enabled = False
    wanted.scanning.disabled = True
    wanted.persistence.finalizer = f"{GROUP}/operator"
    wanted.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    wanted.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
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


def _probe(is_alive: Callable[[], bool]) -> Callable[..., Awaitable[bool]]:
    async def probe(**_: object) -> bool:
        if not is_alive():
            raise kopf.PermanentError("the watch does not deliver changes that a listing shows")
        return True

    return probe


def _login(**arguments: Any) -> kopf.ConnectionInfo | None:
    # In a thread: it reads files and nothing of the operator's.
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
