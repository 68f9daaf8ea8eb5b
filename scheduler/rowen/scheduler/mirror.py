"""A local copy of one resource, kept by list and watch."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import httpx
import kr8s
import structlog
from kr8s.asyncio import Api
from pydantic import ValidationError

from rowen.scheduler.facts import Raw

T = TypeVar("T")

WATCH_SECONDS = 30
"""Life of one watch; its regular end proves that the connection is not deaf."""
RESYNC_SECONDS = 600.0
_BURIED_SECONDS = 600.0
"""How long a deleted object's UID is known: longer than any answer that still names it is on its way."""
_PAGE = 500
_BREATH = 0.2
_LONGEST_PAUSE = 10.0

log = structlog.get_logger()


class StaleListError(Exception):
    """A listing is older than what was known before it was asked for."""


FAILURES = (kr8s.ServerError, kr8s.APITimeoutError, httpx.HTTPError, json.JSONDecodeError, StaleListError)
"""How a request to the API server fails."""


class _ExpiredError(Exception):
    """The watch cannot go on from where it was."""


class Mirror(Generic[T]):
    """Parsed objects by UID. `changed` is called after every change.

    It is fed by the watch, by listings and by the answers to writes, in any order. The version tells which is newer,
    and a UID that was deleted never comes back.
    """

    def __init__(
        self, api: Api, version: str, plural: str, parse: Callable[[Raw], T | None], changed: Callable[[], None]
    ) -> None:
        self._api, self._version, self._plural = api, version, plural
        self._parse, self._changed = parse, changed
        self._values: dict[str, T] = {}
        self._versions: dict[str, int] = {}
        self._buried: dict[str, float] = {}
        self._newest = -1
        self._listed = float("-inf")
        self._contact = float("-inf")

    def values(self) -> list[T]:
        """The objects that could be read."""
        return list(self._values.values())

    def silent_seconds(self) -> float:
        """Seconds since the API server was heard last; infinite before the first list."""
        return time.monotonic() - self._contact

    async def run(self) -> None:
        """Lists and watches until it is cancelled; failures are retried with growing pauses."""
        pause = _BREATH
        while True:
            try:
                version = await self.refresh()
                while time.monotonic() - self._listed < RESYNC_SECONDS:
                    version = await self._watch(version)
                    pause = _BREATH
                    await asyncio.sleep(_BREATH)
            except (*FAILURES, _ExpiredError) as error:
                log.warning("watch failed", resource=self._plural, error=str(error), retry_seconds=pause)
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)

    async def refresh(self) -> int:
        """Lists anew and returns the list's version. Raises one of `FAILURES`."""
        found: dict[str, Raw] = {}
        known, token = self._newest, ""
        while True:
            page = await self._page({"limit": str(_PAGE)} | ({"continue": token} if token else {}))
            version = _version(page)
            if version < known:
                raise StaleListError(f"the list of {self._plural} is of version {version}, {known} has been seen")
            found.update({item["metadata"]["uid"]: item for item in page.get("items") or []})
            token = page["metadata"].get("continue") or ""
            if not token:
                break
        self._take(found, version)
        self._listed = self._contact = time.monotonic()
        self._changed()
        return version

    def _take(self, found: Mapping[str, Raw], version: int) -> None:
        """Takes a full listing in: what it lacks and is not newer than it has been deleted."""
        for uid in set(self._versions) - set(found):
            if self._versions[uid] <= version:
                self._bury(uid)
        for raw in found.values():
            self.put(raw)
        self._newest = max(self._newest, version)
        oldest = time.monotonic() - _BURIED_SECONDS
        self._buried = {uid: at for uid, at in self._buried.items() if at >= oldest}

    async def probe(self) -> None:
        """Asks for one object, to see whether the API server answers. Raises one of `FAILURES`."""
        await self._page({"limit": "1"})

    async def _page(self, params: dict[str, str]) -> dict[str, Any]:
        async with self._api.call_api(
            "GET", version=self._version, url=self._plural, params=params, timeout=20
        ) as response:
            page: dict[str, Any] = response.json()
            return page

    async def _watch(self, version: int) -> int:
        """Follows the changes since that version; returns the version at which to go on."""
        params = {
            "watch": "1",
            "resourceVersion": str(version),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        timeout = httpx.Timeout(10.0, read=WATCH_SECONDS + 15.0)
        async with self._api.call_api(
            "GET", version=self._version, url=self._plural, params=params, stream=True, timeout=timeout
        ) as response:
            self._contact = time.monotonic()
            async for line in response.aiter_lines():
                version = max(version, self._event(json.loads(line)))
        self._contact = time.monotonic()
        return version

    def _event(self, event: dict[str, Any]) -> int:
        self._contact = time.monotonic()
        type_, raw = event["type"], event["object"]
        if type_ == "ERROR":
            raise _ExpiredError(raw.get("message", ""))
        if type_ == "DELETED":
            self._bury(raw["metadata"]["uid"])
            self._changed()
        elif type_ in ("ADDED", "MODIFIED") and self.put(raw):
            self._changed()
        self._newest = max(self._newest, _version(raw))
        return _version(raw)

    def put(self, raw: Raw) -> bool:
        """Takes the object in, unless it was deleted or a newer one is there; returns whether it was taken.

        An object that cannot be read counts as absent.
        """
        uid, version = raw["metadata"]["uid"], _version(raw)
        if uid in self._buried or version <= self._versions.get(uid, -1):
            return False
        self._versions[uid] = version
        try:
            value = self._parse(raw)
        except (ValidationError, ValueError, KeyError, TypeError) as error:
            name = raw["metadata"].get("name")
            log.warning("object cannot be read", resource=self._plural, name=name, error=str(error))
            value = None
        if value is None:
            self._values.pop(uid, None)
        else:
            self._values[uid] = value
        return True

    def _bury(self, uid: str) -> None:
        self._versions.pop(uid, None)
        self._values.pop(uid, None)
        self._buried[uid] = time.monotonic()


def _version(raw: Raw) -> int:
    return int(raw["metadata"]["resourceVersion"])
