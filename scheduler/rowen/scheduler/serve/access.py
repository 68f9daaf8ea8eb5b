"""Who asks, and what they are told: every refusal is a line of JSON."""

import asyncio
import re
from collections.abc import Iterable

from fastapi import HTTPException, Request

from rowen.scheduler.serve.messages import TOKEN_HEADER
from rowen.scheduler.serve.reviews import Caller, Reviewer, Right, UnansweredError
from rowen.scheduler.serve.sight import Sight

MOST_NAMESPACES = 10
"""Of a question: each is a right that has to be asked for."""
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
_ALL = Right("list", "offlinejobs")
_NODES = Right("get", "nodeharvests")


class Guest:
    """Whoever asks, with what they may see."""

    def __init__(self, reviewer: Reviewer, caller: Caller) -> None:
        self._reviewer, self._caller = reviewer, caller

    async def job(self, namespace: str, name: str) -> Sight:
        """Their sight, where they may read this job. Raises 403, 503."""
        return await self._sight(Right("get", "offlinejobs", namespace, name), {namespace})

    async def jobs(self, namespaces: Iterable[str]) -> Sight:
        """Their sight, where they may read the jobs of these namespaces. Raises 403, 422, 503."""
        found = sorted(set(namespaces))
        if len(found) > MOST_NAMESPACES:
            raise HTTPException(422, f"the question is about {len(found)} namespaces, {MOST_NAMESPACES} is the most")
        if await self._allows(_ALL):
            return Sight(None)
        # Side by side: each may take as long as the API server takes.
        await asyncio.gather(*(self._need(Right("list", "offlinejobs", namespace)) for namespace in found))
        return Sight(frozenset(found))

    async def nodes(self) -> None:
        """Whether they may ask about nodes. Raises 403, 503."""
        await self._need(_NODES)

    async def _sight(self, right: Right, namespaces: set[str]) -> Sight:
        if await self._allows(_ALL):
            return Sight(None)
        await self._need(right)
        # Who may read one job is not told of its neighbours.
        kept = {name for name in namespaces if await self._allows(Right("list", "offlinejobs", name))}
        return Sight(frozenset(kept))

    async def _need(self, right: Right) -> None:
        if not await self._allows(right):
            raise HTTPException(403, f"{self._caller.user} may not {right}")

    async def _allows(self, right: Right) -> bool:
        try:
            return await self._reviewer.allows(self._caller, right)
        except UnansweredError as error:
            raise _unanswered(error) from None


class Door:
    """Lets in who has a token that the API server knows; a dependency of what is asked of the scheduler."""

    def __init__(self, reviewer: Reviewer) -> None:
        self._reviewer = reviewer

    async def __call__(self, request: Request) -> Guest:
        """Raises 401 for nobody's token, 503 while nobody can say whose it is."""
        token = _token(request)
        try:
            caller = await self._reviewer.caller(token)
        except UnansweredError as error:
            raise _unanswered(error) from None
        if caller is None:
            raise _unknown("the API server does not know this token, or it has expired")
        return Guest(self._reviewer, caller)


def _token(request: Request) -> str:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token = given.strip() if scheme.lower() == "bearer" else request.headers.get(TOKEN_HEADER, "")
    if not token:
        raise _unknown(f"a bearer token of the cluster is needed, in Authorization or in {TOKEN_HEADER}")
    if not _TOKEN.fullmatch(token):
        raise _unknown("this is no token")
    return token


def _unknown(message: str) -> HTTPException:
    return HTTPException(401, message, {"WWW-Authenticate": "Bearer"})


def _unanswered(error: UnansweredError) -> HTTPException:
    return HTTPException(503, f"{error}; try again later", {"Retry-After": "5"})
