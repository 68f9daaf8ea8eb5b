"""The operator's view of the cluster: a local copy of every watched kind.

The copies are fed by the watch, by listings, and by the answers to the operator's own writes, in any order. A listing
also repairs what the watch has missed, and shows that it has missed it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rowen.kube.copy import Copy, lean
from rowen.kube.listing import Listing, uid_of
from rowen.operator.world.resources import WATCHED

Manifest = Mapping[str, Any]


@dataclass(frozen=True, order=True)
class Key:
    """Names an object; the namespace is empty for cluster-wide kinds."""

    kind: str
    namespace: str
    name: str


def key_of(kind: str, manifest: Manifest) -> Key:
    """The key of an object."""
    return Key(kind, manifest["metadata"].get("namespace") or "", manifest["metadata"]["name"])


class Store:
    """Objects by key. Not for use from several threads.

    `groups_of` files objects for `group`, each group once; `clock` gives seconds.
    """

    def __init__(self, groups_of: Callable[[str, Manifest], Iterable[str]], clock: Callable[[], float]) -> None:
        self._groups_of = groups_of
        self._groups: dict[tuple[str, str], dict[str, Manifest]] = {}
        self._copies: dict[str, Copy[Manifest]] = {
            kind: Copy(kind, lean, partial(self._file, kind), clock) for kind in (resource.kind for resource in WATCHED)
        }

    def get(self, key: Key) -> Manifest | None:
        """The object, or None."""
        return self._copies[key.kind].get(key.namespace, key.name)

    def all(self, kind: str) -> list[Manifest]:
        """All objects of a kind."""
        return self._copies[kind].values()

    def group(self, kind: str, group: str) -> Iterator[Manifest]:
        """The objects of a kind that `groups_of` filed under that group, by name."""
        members = self._groups.get((kind, group), {}).values()
        yield from sorted(members, key=lambda manifest: key_of(kind, manifest))

    def put(self, kind: str, manifest: Manifest) -> bool:
        """Takes an object in, unless a newer version or its deletion is known. Returns whether it was taken."""
        return self._copies[kind].put(dict(manifest))

    def remove(self, kind: str, manifest: Manifest) -> None:
        """Takes an object out; a newer one of the same name stays."""
        self._copies[kind].remove(dict(manifest))

    def saw(self, kind: str, manifest: Manifest) -> None:
        """The watch has delivered this version."""
        self._copies[kind].saw(dict(manifest))

    def kept(self, kind: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """What to keep of an object that a listing shows: what is here already is not kept twice."""
        return dict(self._copies[kind].known(manifest) or lean(manifest))

    def replace(self, kind: str, listing: Listing) -> None:
        """Takes a full listing in. What it has and the watch has not delivered is remembered as unseen."""
        self._copies[kind].replace(listing.items, listing.version)

    def deaf_since(self) -> float | None:
        """When a listing first showed a change that the watch still has not delivered; None if there is none."""
        unseen = (copy.deaf_since() for copy in self._copies.values())
        return min((since for since in unseen if since is not None), default=None)

    def _file(self, kind: str, old: Manifest | None, new: Manifest | None) -> None:
        if old is not None:
            for group in self._groups_of(kind, old):
                members = self._groups[kind, group]
                del members[uid_of(old)]
                if not members:
                    del self._groups[kind, group]
        if new is not None:
            for group in self._groups_of(kind, new):
                self._groups.setdefault((kind, group), {})[uid_of(new)] = new
