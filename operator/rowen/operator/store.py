"""The operator's view of the cluster: the newest version seen of every watched object.

It is fed by the watch, by listings, and by the answers to the operator's own writes, in any order; the resource
version tells which is newer. A listing also repairs what the watch has missed, and shows that it has missed it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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
    """Objects by key. Not for use from several threads. `group_of` files objects for `group`."""

    def __init__(self, group_of: Callable[[str, Manifest], str | None]) -> None:
        self._group_of = group_of
        self._groups: dict[tuple[str, str], set[Key]] = {}
        self._objects: dict[str, dict[Key, Manifest]] = {}
        self._buried: dict[Key, int] = {}
        self._unseen: dict[Key, tuple[int, float]] = {}

    def get(self, key: Key) -> Manifest | None:
        """The object, or None."""
        return self._objects.get(key.kind, {}).get(key)

    def all(self, kind: str) -> Iterator[Manifest]:
        """All objects of a kind."""
        yield from self._objects.get(kind, {}).values()

    def group(self, kind: str, group: str) -> Iterator[Manifest]:
        """The objects of a kind that `group_of` filed under that group."""
        for key in sorted(self._groups.get((kind, group), ())):
            yield self._objects[kind][key]

    def put(self, kind: str, manifest: Manifest) -> bool:
        """Takes an object in, unless a newer version or its deletion is known. Returns whether it was taken."""
        key, version = key_of(kind, manifest), _version(manifest)
        known = self.get(key)
        if (known is not None and _version(known) > version) or self._buried.get(key, -1) >= version:
            return False
        if known is not None:
            self._take_out(key)
        self._objects.setdefault(kind, {})[key] = _trimmed(manifest)
        group = self._group_of(kind, manifest)
        if group is not None:
            self._groups.setdefault((kind, group), set()).add(key)
        return True

    def remove(self, kind: str, manifest: Manifest) -> None:
        """Takes an object out; a newer one of the same name stays."""
        key, version = key_of(kind, manifest), _version(manifest)
        known = self.get(key)
        if known is not None and _uid(known) == _uid(manifest):
            self._take_out(key)
        self._buried[key] = max(version, self._buried.get(key, 0))
        self._unseen.pop(key, None)

    def saw(self, kind: str, manifest: Manifest) -> None:
        """The watch has delivered this version."""
        key = key_of(kind, manifest)
        missed = self._unseen.get(key)
        if missed and _version(manifest) >= missed[0]:
            del self._unseen[key]

    def replace(self, kind: str, items: Iterable[Manifest], list_version: int, now: float) -> None:
        """Takes a full listing in. What it has and the watch has not delivered is remembered as unseen."""
        listed = {key_of(kind, item): item for item in items}
        for key, item in listed.items():
            known = self.get(key)
            if (known is None or _version(known) < _version(item)) and self.put(kind, item):
                self._unseen.setdefault(key, (_version(item), now))
        for key, known in list(self._objects.get(kind, {}).items()):
            if key not in listed and _version(known) <= list_version:
                self._take_out(key)
                self._unseen.pop(key, None)
        # Whatever was deleted before this listing can no longer come back through it.
        buried = {key: version for key, version in self._buried.items() if key.kind != kind or version > list_version}
        self._buried = buried

    def deaf_since(self) -> float | None:
        """When a listing first showed a change that the watch still has not delivered; None if there is none."""
        return min((since for _, since in self._unseen.values()), default=None)

    def _take_out(self, key: Key) -> None:
        manifest = self._objects[key.kind].pop(key)
        group = self._group_of(key.kind, manifest)
        if group is not None:
            members = self._groups[key.kind, group]
            members.discard(key)
            if not members:
                del self._groups[key.kind, group]


def _version(manifest: Manifest) -> int:
    text = manifest["metadata"].get("resourceVersion") or "0"
    return int(text) if text.isdigit() else 0


def _uid(manifest: Manifest) -> str | None:
    uid: str | None = manifest["metadata"].get("uid")
    return uid


def _trimmed(manifest: Manifest) -> Manifest:
    """Without managedFields, which are the longest part of many objects and read by nobody here."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
    return {**manifest, "metadata": metadata}
