"""A local copy of one kind, kept by list and watch."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

from rowen.kube.client import Client, Raw
from rowen.kube.copy import Copy, ignored
from rowen.kube.errors import KubeError, RefusedError, StaleListError, UnreachableError
from rowen.kube.listing import WHOLE_SECONDS, Listing, cached, listing, selection, version_of
from rowen.kube.pauses import pause_seconds
from rowen.kube.resource import Resource

T = TypeVar("T")

WATCH_SECONDS = 30
"""Life of one watch; its regular end proves that the connection is not deaf."""
RESYNC_SECONDS = 600.0
_SILENCE_SECONDS = WATCH_SECONDS + 15.0
_LATE_SECONDS = 10.0
_PROBE_SECONDS = 20.0
_BREATH_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0
_EXPIRED = 410

log = structlog.get_logger()


class _ExpiredError(KubeError):
    """The watch cannot go on from where it was: what the copy lacks is not known before the next list."""


class Informer(Generic[T]):
    """Objects of a kind as `Copy` keeps them. `changed` gets what was there before and what is there now."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        parse: Callable[[Raw], T | None],
        changed: Callable[[T | None, T | None], None] = ignored,
        namespace: str | None = None,
        field_selector: str | None = None,
    ) -> None:
        """`namespace`: the one whose objects are of interest; None: all.

        `field_selector` picks few of them: they are listed out of the API server's memory, never older than was seen,
        and anew from its store where that has been put back.
        """
        self._client, self._resource, self._namespace = client, resource, namespace
        self._field_selector = field_selector
        self._copy = Copy(resource.kind, parse, changed)
        self._version = -1
        self._newest = -1
        self._beginnings = 0
        """How often who uses it has said that the store was put back."""
        self._listed = self._contact = self._told = float("-inf")
        """When it was listed to be watched from there, when the API server was heard last, and when by the watch."""
        self._deaf = self._forbidden = False
        self._opened: float | None = None
        """Since when there is a watch, one after the other; None while there is none."""

    def values(self) -> list[T]:
        """The objects that could be read."""
        return self._copy.values()

    def get(self, namespace: str | None, name: str) -> T | None:
        """The object of that name; None where there is none."""
        return self._copy.get(namespace, name)

    def put(self, raw: Raw) -> bool:
        """Takes the answer to a write in; returns whether it was news."""
        return self._copy.put(raw)

    def newest(self) -> int:
        """The newest version that was seen, of an object or of a list; -1 before the first one."""
        return self._newest

    def silent_seconds(self) -> float:
        """Seconds since the API server was heard last; infinite before the first list, and while it is not kept."""
        return time.monotonic() - self._contact

    def lacks_right(self) -> bool:
        """Whether RBAC did not let it list or watch when the API server last answered."""
        return self._forbidden

    def follows(self) -> bool:
        """Whether changes are told as they come: the watch is open and, as far as is known, neither deaf nor dead.

        One whose connection is lost without a word is dead after `_SILENCE_SECONDS`, one that has not delivered what a
        list has shown is deaf after `_LATE_SECONDS`.
        """
        if self._opened is None or self._listed == float("-inf"):
            return False
        # Answers to lists beside it say nothing of the watch, but they may show what it keeps to itself.
        return not self._deaf and not self._is_late() and time.monotonic() - self._told < _SILENCE_SECONDS

    def begin_anew(self) -> None:
        """Takes nothing for older than what was seen: the API server's store has been put back, as from a backup.

        Nothing is followed before the next list that is asked for: what is under way may tell what was before, and a
        watch from a version that the store has not come to tells nothing.
        """
        self._beginnings += 1
        self._forget()

    def _forget(self) -> None:
        log.warning("the API server's store has been put back", kind=self._resource.kind, newest=self._newest)
        self._copy.begin_anew()
        self._version = self._newest = -1
        self._listed = self._contact = float("-inf")

    async def run(self) -> None:
        """Lists and watches until it is cancelled; after failures it waits, longer each time.

        It may run again, and lists anew then.
        """
        try:
            await self._keep()
        finally:
            self._listed = self._contact = float("-inf")
            self._opened = None

    async def _keep(self) -> None:
        failures = 0
        while True:
            try:
                await self._catch_up()
                while time.monotonic() - self._listed < self._resync_seconds():
                    await self._watch()
                    failures = 0
                    await asyncio.sleep(_BREATH_SECONDS)
            except KubeError as error:
                self._opened = None
                # Where the connection was cut or the server is busy, the next watch goes on where this one was.
                if not error.passes:
                    self._listed = float("-inf")
                    self._forbidden = isinstance(error, RefusedError) and error.lacks_right
                if isinstance(error, _ExpiredError):
                    self._contact = float("-inf")
                failures += 1
                pause = pause_seconds(error, failures, first=_BREATH_SECONDS, most=_LONGEST_PAUSE_SECONDS)
                log.warning("watch failed", kind=self._resource.kind, error=str(error), retry_seconds=round(pause, 1))
                await asyncio.sleep(pause)

    async def refresh(self, most_seconds: float = WHOLE_SECONDS) -> int:
        """Lists anew, no request taking longer than `most_seconds`; returns the list's version. Raises `KubeError`."""
        known, beginnings = self._newest, self._beginnings
        found = await self._list(most_seconds)
        if beginnings != self._beginnings:
            raise StaleListError(f"the store was put back while {self._resource.plural} were listed")
        if found.version < min(known, self._newest):
            raise StaleListError(
                f"the list of {self._resource.plural} is of version {found.version}, {known} has been seen"
            )
        self._copy.replace(found.items, found.version)
        self._newest = max(self._newest, found.version)
        self._contact = time.monotonic()
        return found.version

    async def _list(self, most_seconds: float) -> Listing:
        if self._field_selector is None:
            return await listing(self._client, self._resource, namespace=self._namespace, most_seconds=most_seconds)
        least = max(self._newest, 0)
        try:
            return await cached(
                self._client, self._resource, namespace=self._namespace, field_selector=self._field_selector,
                least_version=least, most_seconds=most_seconds,
            )  # fmt: skip
        except RefusedError as error:
            # A server that is late will come to it. Out of the store the few would cost a scan of all there are.
            if not error.ahead or await self.probe(most_seconds) >= least:
                raise
        found = await listing(
            self._client, self._resource, namespace=self._namespace, field_selector=self._field_selector,
            most_seconds=most_seconds,
        )  # fmt: skip
        if found.version < least:
            self._forget()
        return found

    async def probe(self, most_seconds: float = _PROBE_SECONDS) -> int:
        """Asks for one object, whichever; returns the version that the store has come to. Raises `KubeError`."""
        path = self._resource.path(self._namespace)
        return version_of(await self._client.call("GET", path, query={"limit": "1"}, timeout_seconds=most_seconds))

    def _selection(self) -> dict[str, str]:
        return selection(self._resource, self._field_selector)

    async def _catch_up(self) -> None:
        """Lists, where that is due; the next watch goes on from there."""
        if time.monotonic() - self._listed < self._resync_seconds():
            return
        late, self._opened = self._is_late(), None
        version = await self.refresh()
        self._deaf = late or self._copy.missed(self._version) > 0
        if self._deaf:
            log.warning("the watch has not delivered changes", kind=self._resource.kind)
        self._version = max(self._version, version)
        self._copy.heard_to(self._version)
        self._listed = time.monotonic()

    def _resync_seconds(self) -> float:
        """A watch that keeps things to itself is worth no more than the lists between."""
        return WATCH_SECONDS if self._deaf else RESYNC_SECONDS

    async def _watch(self) -> None:
        """Follows the changes from where it was, for one watch's life."""
        query = {
            **self._selection(),
            "watch": "1",
            "resourceVersion": str(self._version),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        try:
            async with self._client.lines(self._resource.path(self._namespace), query, _SILENCE_SECONDS) as lines:
                self._hear()
                self._opened = self._opened or self._told
                async for line in lines:
                    self._take(line)
        except RefusedError as error:
            if error.status == _EXPIRED or error.ahead:
                raise _ExpiredError(error.message) from error
            raise
        self._hear()

    def _hear(self) -> None:
        self._forbidden = False
        self._contact = self._told = time.monotonic()

    def _is_late(self) -> bool:
        """Whether a list has shown a change that the watch should have delivered by now."""
        since = self._copy.deaf_since()
        if since is None or self._opened is None:
            return False
        return time.monotonic() - max(since, self._opened) >= _LATE_SECONDS

    def _take(self, line: bytes) -> None:
        self._hear()
        try:
            event = json.loads(line)
            type_, raw = event["type"], event["object"]
            if type_ == "ERROR":
                raise _ExpiredError(str(raw.get("message") or raw))
            version = version_of(raw)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise UnreachableError(f"a line of the watch is no event: {error}") from error
        if type_ == "DELETED":
            self._copy.remove(raw)
        elif type_ in ("ADDED", "MODIFIED"):
            self._copy.put(raw)
            self._copy.saw(raw)
        self._version = max(self._version, version)
        self._newest = max(self._newest, version)
