"""Asks the API server who somebody is, and what they may read."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from rowen.kube.client import Client
from rowen.kube.errors import KubeError, RefusedError
from rowen.scheduler.serve.bucket import Bucket
from rowen.scheduler.serve.memo import Memo

REMEMBERED_SECONDS = 10.0
"""So long an answer holds: a right that was taken away, or a token that was, ends no later."""
ANSWER_SECONDS = 5.0
"""So long a caller waits for an answer about it, its turn included."""
_MOST_TOKENS, _MOST_RIGHTS = 1024, 4096
_AT_ONCE = 4
MOST_WAITING = 64
"""So many reviews are under way or wait their turn; one more is not asked for."""
TOKENS_PER_SECOND, TOKENS_AT_ONCE = 10.0, 50
"""How many reviews tokens may take that have not been somebody's of late."""
RIGHTS_PER_SECOND, RIGHTS_AT_ONCE = 50.0, 200
_MET_SECONDS = 600.0
_SILENT = "the API server does not say who may ask"
_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

log = structlog.get_logger()


@dataclass(frozen=True)
class Caller:
    """Whom the API server takes the bearer of a token for."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Right:
    """To read objects of a kind of `rowen.dev`."""

    verb: str
    resource: str
    namespace: str = ""
    """Empty for all of them."""
    name: str = ""
    """Empty for all of them."""

    def __str__(self) -> str:
        what = f"{self.resource}.rowen.dev" + (f" {self.name}" if self.name else "")
        return f"{self.verb} {what}" + (f" in namespace {self.namespace}" if self.namespace else "")


class UnansweredError(Exception):
    """Nobody said who it is or what they may, and nobody is let in on that; the text says why."""


class Reviewer(Protocol):
    """Who says who somebody is."""

    async def caller(self, token: str) -> Caller | None:
        """Whose token it is; None for nobody's. Raises `UnansweredError`."""

    async def allows(self, caller: Caller, right: Right) -> bool:
        """Whether the caller has the right. Raises `UnansweredError`."""


class Reviews:
    """The API server's answers, kept for a moment. Tokens are kept as digests only, and never logged."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._callers: Memo[bytes, tuple[Caller | None]] = Memo(_MOST_TOKENS, REMEMBERED_SECONDS, clock)
        self._rights: Memo[tuple[Caller, Right], bool] = Memo(_MOST_RIGHTS, REMEMBERED_SECONDS, clock)
        self._met: Memo[bytes, bool] = Memo(_MOST_TOKENS, _MET_SECONDS, clock)
        # Made-up tokens and names must not become a flood of reviews: statuses are written by the same account.
        self._turns, self._waiting = asyncio.Semaphore(_AT_ONCE), 0
        self._new_tokens = Bucket(TOKENS_PER_SECOND, TOKENS_AT_ONCE, clock)
        self._new_rights = Bucket(RIGHTS_PER_SECOND, RIGHTS_AT_ONCE, clock)

    async def caller(self, token: str) -> Caller | None:
        """Whose token it is; None for nobody's. Raises `UnansweredError`."""
        key = hashlib.sha256(token.encode()).digest()
        known = self._callers.get(key)
        if known is None:
            # Who was let in of late is not held up by those who try tokens.
            if self._met.get(key) is None and not self._new_tokens.take():
                raise UnansweredError("too many unknown tokens come at once")
            known = (_caller(await self._ask(_REVIEWS, "TokenReview", "authentication", {"token": token})),)
            self._callers.put(key, known)
            if known[0] is not None:
                self._met.put(key, True)
        return known[0]

    async def allows(self, caller: Caller, right: Right) -> bool:
        """Whether the caller has the right. Raises `UnansweredError`."""
        known = self._rights.get((caller, right))
        if known is None:
            if not self._new_rights.take():
                raise UnansweredError("too many rights are asked about at once")
            asked = _access(caller, right)
            status = await self._ask(_ACCESS_REVIEWS, "SubjectAccessReview", "authorization", asked)
            known = status.get("allowed") is True
            self._rights.put((caller, right), known)
        return known

    async def _ask(self, path: str, kind: str, group: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        if self._waiting >= MOST_WAITING:
            raise UnansweredError("too many callers wait to be known")
        review = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}
        self._waiting += 1
        try:
            async with asyncio.timeout(ANSWER_SECONDS), self._turns:
                answer = await self._client.call("POST", path, body=review, timeout_seconds=ANSWER_SECONDS)
        except (KubeError, TimeoutError) as error:
            # What the API server says of it may repeat what it was asked.
            told = error.status if isinstance(error, RefusedError) else type(error).__name__
            log.warning("a caller cannot be checked", review=kind, error=told)
            raise UnansweredError(_SILENT) from error
        finally:
            self._waiting -= 1
        status = answer.get("status")
        if not isinstance(status, dict):
            raise UnansweredError(_SILENT)
        return status


def _caller(status: Mapping[str, Any]) -> Caller | None:
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    extra = sorted((str(key), tuple(map(str, values))) for key, values in (user.get("extra") or {}).items())
    groups = tuple(map(str, user.get("groups") or ()))
    return Caller(str(user["username"]), str(user.get("uid") or ""), groups, tuple(extra))


def _access(caller: Caller, right: Right) -> dict[str, Any]:
    attributes = {"group": "rowen.dev", "resource": right.resource, "verb": right.verb}
    where = {"namespace": right.namespace, "name": right.name}
    return {
        "user": caller.user,
        "uid": caller.uid,
        "groups": list(caller.groups),
        "extra": {key: list(values) for key, values in caller.extra},
        "resourceAttributes": attributes | {key: value for key, value in where.items() if value},
    }
