"""The local copy of one kind, without any I/O: the newest version seen of every object."""

import sys
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Generic, TypeVar

import structlog

from rowen.kube.client import Raw
from rowen.kube.listing import uid_of, version_of

T = TypeVar("T")

BURIED_SECONDS = 600.0
"""How long a deleted object's UID is known: longer than any answer that still names it is on its way."""

_TEXTS, _CHARACTERS = 4096, 256
"""How many values are kept to be shared, each of so many characters at most: some 2 MB."""

log = structlog.get_logger()


def lean(raw: Raw) -> Raw:
    """The object without `managedFields`, the longest part of many; what says the same in many objects is there once.

    A pod takes half of the memory that it takes as it is read.
    """
    metadata = {name: value for name, value in raw["metadata"].items() if name != "managedFields"}
    found: Raw = _shared({**raw, "metadata": metadata})
    return found


def _shared(value: Any) -> Any:
    if isinstance(value, dict):
        return {sys.intern(name): _shared(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_shared(part) for part in value]
    return _text(value) if isinstance(value, str) and len(value) <= _CHARACTERS else value


@lru_cache(_TEXTS)
def _text(value: str) -> str:
    """The same text as it was met first, of those that were met lately.

    UIDs, versions and times are met once or twice, and go. Python 3.12.0 to 3.12.6 keeps what is interned for ever.
    """
    return value


def ignored(_old: object, _new: object) -> None:
    """For whoever does not ask what has changed."""


class Copy(Generic[T]):
    """Parsed objects by UID. Not for use from several threads.

    It is fed by a watch, by listings and by the answers to writes, in any order. The version tells which is newer,
    and no older answer brings back what was deleted. `parse` gives None for what is not of interest; an object that it
    cannot read counts as absent. `changed` gets what was there before and what is there now.
    """

    def __init__(
        self,
        kind: str,
        parse: Callable[[Raw], T | None],
        changed: Callable[[T | None, T | None], None] = ignored,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kind, self._parse, self._changed, self._clock = kind, parse, changed, clock
        self._values: dict[str, T] = {}
        self._versions: dict[str, int] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self._named: dict[tuple[str, str], str] = {}
        self._buried: dict[str, tuple[int, float]] = {}
        self._unseen: dict[str, tuple[int, float]] = {}

    def values(self) -> list[T]:
        """The objects that could be read."""
        return list(self._values.values())

    def get(self, namespace: str | None, name: str) -> T | None:
        """The object of that name, the newest one of them; None where there is none."""
        return self._values.get(self._named.get((namespace or "", name), ""))

    def known(self, raw: Raw) -> T | None:
        """What is here of that very version; None where there is another one, or none."""
        uid = uid_of(raw)
        return self._values.get(uid) if self._versions.get(uid) == version_of(raw) else None

    def put(self, raw: Raw) -> bool:
        """Takes an object in, unless it was deleted or a newer one is there; returns whether it was taken."""
        uid, version = uid_of(raw), version_of(raw)
        # What leaves a selector is told as deleted and may come back later, newer.
        buried, _ = self._buried.get(uid, (-1, 0.0))
        if version <= max(buried, self._versions.get(uid, -1)):
            return False
        self._versions[uid] = version
        self._name(raw, uid, version)
        self._set(uid, self._read(raw))
        return True

    def saw(self, raw: Raw) -> None:
        """The watch has delivered this version, or a later one."""
        uid = uid_of(raw)
        missed = self._unseen.get(uid)
        if missed and version_of(raw) >= missed[0]:
            del self._unseen[uid]

    def remove(self, raw: Raw) -> None:
        """Takes an object out, unless a newer version is there; another one of the same name stays."""
        uid, version = uid_of(raw), version_of(raw)
        if self._versions.get(uid, -1) <= version:
            self._bury(uid, version)

    def replace(self, items: Iterable[Raw], version: int) -> None:
        """Takes a full listing in: what it lacks and is not newer than it has been deleted.

        What it has and the watch has not delivered is remembered as unseen.
        """
        now = self._clock()
        listed = {uid_of(raw): raw for raw in items}
        for uid in set(self._versions) - set(listed):
            if self._versions[uid] <= version:
                self._bury(uid, version)
        for uid, raw in listed.items():
            if self.put(raw):
                self._unseen.setdefault(uid, (version_of(raw), now))
        self._buried = {uid: at for uid, at in self._buried.items() if at[1] >= now - BURIED_SECONDS}

    def begin_anew(self) -> None:
        """Versions count up from elsewhere now: the next that is heard of an object is newer than what is here."""
        self._versions = dict.fromkeys(self._versions, -1)
        self._buried.clear()
        self._unseen.clear()

    def heard_to(self, version: int) -> None:
        """A watch that begins at this version is not expected to deliver what is no newer."""
        self._unseen = {uid: unseen for uid, unseen in self._unseen.items() if unseen[0] > version}

    def missed(self, version: int) -> int:
        """How many changes a listing has shown that a watch up to this version should have delivered."""
        return sum(unseen <= version for unseen, _ in self._unseen.values())

    def deaf_since(self) -> float | None:
        """When a listing first showed a change that the watch still has not delivered; None if there is none."""
        return min((since for _, since in self._unseen.values()), default=None)

    def _read(self, raw: Raw) -> T | None:
        # Anybody may have written it.
        try:
            return self._parse(raw)
        except Exception as error:
            name = raw["metadata"].get("name")
            log.warning("object cannot be read", kind=self._kind, name=name, error=str(error))
            return None

    def _set(self, uid: str, value: T | None) -> None:
        before = self._values.pop(uid, None)
        if value is not None:
            self._values[uid] = value
        if before is not None or value is not None:
            self._changed(before, value)

    def _name(self, raw: Raw, uid: str, version: int) -> None:
        """A new object of a name may come before the end of the old one."""
        metadata: dict[str, Any] = raw["metadata"]
        key = (metadata.get("namespace") or "", str(metadata.get("name")))
        self._names[uid] = key
        if version >= self._versions.get(self._named.get(key, ""), -1):
            self._named[key] = uid

    def _bury(self, uid: str, version: int) -> None:
        self._versions.pop(uid, None)
        self._unseen.pop(uid, None)
        self._buried[uid] = (version, self._clock())
        key = self._names.pop(uid, None)
        if key is not None and self._named.get(key) == uid:
            del self._named[key]
        self._set(uid, None)
