"""Rowen's kinds, made known to an API server."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from rowen.cluster.errors import ClusterError
from rowen.crds.definition.manifest import definition
from rowen.crds.kinds import KINDS
from rowen.crds.names import API_VERSION
from rowen.kube.client import Client
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import DEFINITIONS
from rowen.kube.objects import apply

_MANAGER = "test"


async def load_definitions(client: Client, most_seconds: float) -> None:
    """Applies them and waits until they are served and described. Raises `ClusterError`."""
    for kind in KINDS:
        await apply(client, DEFINITIONS, definition(kind), manager=_MANAGER)
    deadline = time.monotonic() + most_seconds
    for kind in KINDS:
        await _await(lambda plural=kind.plural: _served(client, plural), deadline, kind.plural)  # type: ignore[misc]
    # What `kubectl explain` reads follows the definitions a moment later.
    await _await(lambda: _described(client), deadline, "their description")


async def _served(client: Client, plural: str) -> bool:
    await client.call("GET", f"/apis/{API_VERSION}/{plural}")
    return True


async def _described(client: Client) -> bool:
    described = str(await client.call("GET", f"/openapi/v3/apis/{API_VERSION}"))
    return all(f".{kind.name}'" in described for kind in KINDS)


async def _await(look: Callable[[], Awaitable[bool]], deadline: float, what: str) -> None:
    while time.monotonic() < deadline:
        try:
            if await look():
                return
        except RefusedError:
            pass
        await asyncio.sleep(0.05)
    raise ClusterError(f"Rowen's kinds: {what} is not served")
