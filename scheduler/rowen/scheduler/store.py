"""Profiles, prediction errors and back-offs in a ConfigMap, so that they outlive the scheduler."""

import contextlib
import json
from collections.abc import Iterable
from typing import Any, TypeVar

import kr8s
import structlog
from kr8s.asyncio import Api
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from rowen.crds.apply import apply
from rowen.crds.names import SCHEDULER_MANAGER
from rowen.scheduler.backoff import Backoff
from rowen.scheduler.history import History
from rowen.scheduler.profile import PredictionError, Profile, newest

NAME = "rowen-profiles"
FORMAT = 1
_KEY = "profiles.json"
_PROFILES_BYTES, _ERRORS_BYTES, _BACKOFFS_BYTES = 400_000, 100_000, 250_000
"""The most that each part may take: a ConfigMap holds 1 MiB."""

T = TypeVar("T")

log = structlog.get_logger()


class _Stored(BaseModel):
    """The stored form: pairs of key and value; a key of two parts is a pair too."""

    model_config = ConfigDict(extra="ignore")

    version: int
    profiles: list[Any] = []
    errors: list[Any] = []
    backoffs: list[Any] = []


_ENTRY: TypeAdapter[object] = TypeAdapter(object)
_PROFILE: TypeAdapter[tuple[tuple[str, str], Profile]] = TypeAdapter(tuple[tuple[str, str], Profile])
_ERROR: TypeAdapter[tuple[str, PredictionError]] = TypeAdapter(tuple[str, PredictionError])
_BACKOFF: TypeAdapter[tuple[tuple[str, str], Backoff]] = TypeAdapter(tuple[tuple[str, str], Backoff])


def encode(history: History) -> str:
    """JSON of what outlives a restart; where that is too much, what changed last and the longest back-offs."""
    profiles = _fitting(newest(history.profiles).items(), _PROFILES_BYTES)
    workloads = dict.fromkeys(key[0] for key, _ in profiles)
    errors = _fitting(((key, history.errors[key]) for key in workloads if key in history.errors), _ERRORS_BYTES)
    longest = sorted(history.backoffs.items(), key=lambda item: (-item[1].until, item[0]))
    stored = _Stored(
        version=FORMAT,
        profiles=sorted(profiles, key=lambda item: item[0]),
        errors=sorted(errors, key=lambda item: item[0]),
        backoffs=sorted(_fitting(longest, _BACKOFFS_BYTES), key=lambda item: item[0]),
    )
    return stored.model_dump_json()


def _fitting(items: Iterable[T], most: int) -> list[T]:
    """The first items, as many as take no more than so many bytes; one that is too long by itself is passed over."""
    found, left = [], most
    for item in items:
        size = len(_ENTRY.dump_json(item)) + 1
        if size <= left:
            found.append(item)
            left -= size
    return found


def decode(text: str, latest: float) -> History:
    """The history of the JSON, without the entries that are out of range, which are told.

    No back-off is later than `latest`, Unix seconds. Raises `ValueError` when the JSON is of another format.
    """
    stored = _Stored.model_validate_json(text)
    if stored.version != FORMAT:
        raise ValueError(f"{_KEY} has format {stored.version}, this scheduler reads {FORMAT}")
    profiles, errors = _valid(stored.profiles, _PROFILE), _valid(stored.errors, _ERROR)
    backoffs = [(key, backoff) for key, backoff in _valid(stored.backoffs, _BACKOFF) if backoff.until <= latest]
    dropped = len(stored.profiles) + len(stored.errors) + len(stored.backoffs)
    dropped -= len(profiles) + len(errors) + len(backoffs)
    if dropped:
        log.warning("stored entries are out of range and dropped", entries=dropped)
    return History(dict(profiles), dict(errors), dict(backoffs))


def _valid(entries: Iterable[object], form: TypeAdapter[T]) -> list[T]:
    found = []
    for entry in entries:
        with contextlib.suppress(ValidationError):
            found.append(form.validate_python(entry))
    return found


class Store:
    """The ConfigMap `rowen-profiles` in the scheduler's own namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def load(self, latest: float) -> History:
        """What was stored; empty when there is none, or none that can be read: it is measured again.

        No back-off is later than `latest`, Unix seconds.
        """
        async with self._api.call_api(
            "GET", version="v1", namespace=self._namespace, url=f"configmaps/{NAME}", raise_for_status=False, timeout=10
        ) as response:
            found: dict[str, Any] = response.json()
        if response.status_code == 404:
            return History()
        if response.is_error:
            raise kr8s.ServerError(str(found.get("message")), status=str(response.status_code), response=response)
        try:
            return decode((found.get("data") or {})[_KEY], latest)
        except (KeyError, ValidationError, ValueError, json.JSONDecodeError) as error:
            log.warning("stored profiles cannot be read and are measured again", error=str(error))
            return History()

    async def save(self, history: History) -> None:
        """Writes it. Raises what `apply` raises."""
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": self._namespace},
            "data": {"version": str(FORMAT), _KEY: encode(history)},
        }
        await apply(self._api, manifest, manager=SCHEDULER_MANAGER)
