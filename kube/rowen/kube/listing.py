"""Full listings, page by page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rowen.kube.client import Client, Raw
from rowen.kube.errors import RefusedError, UnreachableError
from rowen.kube.resource import Resource

PAGE = 500
"""Objects of a page."""
PAGE_SECONDS, WHOLE_SECONDS = 20.0, 60.0
"""How long a page may take, and a list in one piece."""
_EXPIRED = 410


def whole(raw: Raw) -> Raw:
    """For whoever wants objects as they are."""
    return raw


@dataclass(frozen=True)
class Listing:
    """What the API server had at one moment."""

    items: tuple[Raw, ...]
    """Each with the `apiVersion` and `kind` that a list leaves out."""
    version: int
    """No older than this; what is newer may be missing."""


async def listing(
    client: Client,
    resource: Resource,
    *,
    namespace: str | None = None,
    field_selector: str | None = None,
    most_seconds: float = WHOLE_SECONDS,
    kept: Callable[[Raw], Raw] = whole,
) -> Listing:
    """All objects of a kind; no request takes longer than `most_seconds`. Raises `KubeError`.

    `kept` tells what stays of each as its page comes: a page is large, and all of them together are larger.
    """
    path, query = resource.path(namespace), selection(resource, field_selector)
    try:
        return await _paged(client, resource, path, query, min(PAGE_SECONDS, most_seconds), kept)
    except RefusedError as error:
        # The pages have outlived what the API server remembers: it can still be had in one piece.
        if error.status != _EXPIRED:
            raise
    body = await client.call("GET", path, query=query, timeout_seconds=most_seconds)
    return Listing(tuple(kept(item) for item in _items(body, resource)), version_of(body))


async def cached(
    client: Client,
    resource: Resource,
    *,
    namespace: str | None = None,
    field_selector: str | None = None,
    least_version: int = 0,
    most_seconds: float = WHOLE_SECONDS,
) -> Listing:
    """All objects of a kind out of the API server's memory, in one piece: of `least_version` or newer.

    For few out of many: pages, and what has to be the newest, may cost a scan of its store, whatever the selector
    picks. Raises `KubeError`.
    """
    query = {**selection(resource, field_selector), "resourceVersion": str(least_version)}
    body = await client.call("GET", resource.path(namespace), query=query, timeout_seconds=most_seconds)
    return Listing(tuple(_items(body, resource)), version_of(body))


async def _paged(
    client: Client,
    resource: Resource,
    path: str,
    query: Mapping[str, str],
    page_seconds: float,
    kept: Callable[[Raw], Raw],
) -> Listing:
    found: dict[str, Raw] = {}
    versions: list[int] = []
    token = ""
    while True:
        page = {"limit": str(PAGE)} | ({"continue": token} if token else {})
        body = await client.call("GET", path, query={**query, **page}, timeout_seconds=page_seconds)
        found.update({uid_of(item): kept(item) for item in _items(body, resource)})
        # Pages may be of several versions, where one is asked for late.
        versions.append(version_of(body))
        token = str(body["metadata"].get("continue") or "")
        if not token:
            return Listing(tuple(found.values()), min(versions))


def selection(resource: Resource, field_selector: str | None = None) -> dict[str, str]:
    """The query that asks for this kind's objects."""
    chosen = {"labelSelector": resource.selector, "fieldSelector": field_selector}
    return {name: value for name, value in chosen.items() if value}


def version_of(raw: Mapping[str, object]) -> int:
    """Version of an object or a list; they count up. Raises `UnreachableError` where there is none."""
    try:
        return int(raw["metadata"]["resourceVersion"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError) as error:
        raise UnreachableError("the answer has no readable resourceVersion") from error


def uid_of(raw: Mapping[str, object]) -> str:
    """UID of an object. Raises `UnreachableError` where there is none."""
    try:
        return str(raw["metadata"]["uid"])  # type: ignore[index]
    except (KeyError, TypeError) as error:
        raise UnreachableError("an object of the answer has no uid") from error


def _items(body: Raw, resource: Resource) -> list[Raw]:
    items = body.get("items") or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise UnreachableError("the answer is no list")
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**head, **item} for item in items]
