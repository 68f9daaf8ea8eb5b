"""A local copy of one resource, kept by list and watch."""

import asyncio
import json
import time
from collections.abc import Callable
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
_PAGE = 500
_BREATH = 0.2
_LONGEST_PAUSE = 10.0
FAILURES = (kr8s.ServerError, kr8s.APITimeoutError, httpx.HTTPError, json.JSONDecodeError)
"""How a request to the API server fails."""

log = structlog.get_logger()


class _ExpiredError(Exception):
    """The watch cannot go on from where it was."""


class Mirror(Generic[T]):
    """Parsed objects by UID. `changed` is called after every change."""

    def __init__(
        self, api: Api, version: str, plural: str, parse: Callable[[Raw], T | None], changed: Callable[[], None]
    ) -> None:
        self._api, self._version, self._plural = api, version, plural
        self._parse, self._changed = parse, changed
        self._values: dict[str, T] = {}
        self._versions: dict[str, int] = {}
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

    async def refresh(self) -> str:
        """Lists anew and returns the list's version. Raises one of `FAILURES`."""
        found: dict[str, Raw] = {}
        token, version = "", ""
        while True:
            page = await self._page(token)
            version = str(page["metadata"]["resourceVersion"])
            found.update({item["metadata"]["uid"]: item for item in page.get("items") or []})
            token = page["metadata"].get("continue") or ""
            if not token:
                break
        for uid in set(self._versions) - set(found):
            if self._versions[uid] <= int(version):
                self._remove(uid)
        for raw in found.values():
            self.put(raw)
        self._listed = self._contact = time.monotonic()
        self._changed()
        return version

    async def _page(self, token: str) -> dict[str, Any]:
        params = {"limit": str(_PAGE)} | ({"continue": token} if token else {})
        async with self._api.call_api(
            "GET", version=self._version, url=self._plural, params=params, timeout=20
        ) as response:
            page: dict[str, Any] = response.json()
            return page

    async def _watch(self, version: str) -> str:
        params = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        timeout = httpx.Timeout(10.0, read=WATCH_SECONDS + 15.0)
        async with self._api.call_api(
            "GET", version=self._version, url=self._plural, params=params, stream=True, timeout=timeout
        ) as response:
            self._contact = time.monotonic()
            async for line in response.aiter_lines():
                version = self._event(json.loads(line))
        self._contact = time.monotonic()
        return version

    def _event(self, event: dict[str, Any]) -> str:
        self._contact = time.monotonic()
        type_, raw = event["type"], event["object"]
        if type_ == "ERROR":
            raise _ExpiredError(raw.get("message", ""))
        if type_ == "DELETED":
            self._remove(raw["metadata"]["uid"])
            self._changed()
        elif type_ in ("ADDED", "MODIFIED") and self.put(raw):
            self._changed()
        return str(raw["metadata"]["resourceVersion"])

    def put(self, raw: Raw) -> bool:
        """Takes the object in, unless a newer one is there; an object that cannot be read counts as absent."""
        uid, version = raw["metadata"]["uid"], int(raw["metadata"]["resourceVersion"])
        if version <= self._versions.get(uid, -1):
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

    def _remove(self, uid: str) -> None:
        self._versions.pop(uid, None)
        self._values.pop(uid, None)
