"""Profiles, prediction errors and back-offs in a ConfigMap, so that they outlive the scheduler."""

import contextlib
import json
from collections.abc import Iterable
from typing import Any, TypeVar

import structlog
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from rowen.crds.names import SCHEDULER_MANAGER
from rowen.kube.client import Client
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import CONFIG_MAPS
from rowen.kube.objects import CONFLICT, NOT_FOUND, apply, get
from rowen.scheduler.history import History
from rowen.scheduler.model.profile import PredictionError, Profile, newest
from rowen.scheduler.monitor.backoff import Backoff

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

    No back-off and no error is later than `latest`, Unix seconds. Raises `ValueError` when the JSON is of another
    format.
    """
    stored = _Stored.model_validate_json(text)
    if stored.version != FORMAT:
        raise ValueError(f"{_KEY} has format {stored.version}, this scheduler reads {FORMAT}")
    profiles = _valid(stored.profiles, _PROFILE)
    errors = [(key, error) for key, error in _valid(stored.errors, _ERROR) if error.time <= latest]
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

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._version: str | None = None

    async def load(self, latest: float) -> History:
        """What was stored; empty when there is none, or none that can be read: it is measured again.

        No back-off is later than `latest`, Unix seconds. Raises `KubeError`.
        """
        try:
            found = await get(self._client, CONFIG_MAPS, self._namespace, NAME)
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise
            self._version = None
            return History()
        self._version = found["metadata"]["resourceVersion"]
        try:
            return decode((found.get("data") or {})[_KEY], latest)
        except (KeyError, ValidationError, ValueError, json.JSONDecodeError) as error:
            log.warning("stored profiles cannot be read and are measured again", error=str(error))
            return History()

    async def save(self, history: History) -> None:
        """Writes it. Raises `KubeError`, also when another one has written since; the next time it is overwritten."""
        metadata = {"name": NAME, "namespace": self._namespace}
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**metadata, "resourceVersion": self._version} if self._version else metadata,
            "data": {"version": str(FORMAT), _KEY: encode(history)},
        }
        try:
            stored = await apply(self._client, CONFIG_MAPS, manifest, manager=SCHEDULER_MANAGER)
        except RefusedError as error:
            if error.status == CONFLICT:
                self._version = None
            raise
        self._version = stored["metadata"]["resourceVersion"]
