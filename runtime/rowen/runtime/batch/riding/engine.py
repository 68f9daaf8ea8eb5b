"""A serving engine as the batch worker sees it: rows are requests that say that they are rows."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, NoReturn

import httpx
import structlog
from typing_extensions import override

from rowen.crds.job.worker import RIDE_LOST, RIDE_REFUSED, ExitCode
from rowen.runtime.batch.riding.answers import all_tokens, is_aborted, is_as_long
from rowen.runtime.batch.riding.health import Health
from rowen.runtime.batch.riding.intake import Intake
from rowen.runtime.batch.room import has_prompt_logprobs, is_beam_search, requests_in
from rowen.runtime.batch.serving.length import Length, is_cut
from rowen.runtime.batch.serving.routes import ROUTES
from rowen.runtime.batch.serving.server import Answer, Server, body_of, is_json, unreadable
from rowen.runtime.failure import WorkerError
from rowen.runtime.vllm.rows.marker import ID_HEADER, row_id

log = structlog.get_logger()

_SEQUENCES = 64
"""Rows that wait in the engine or are worked on: more than run there at once. Nor is one row more requests than that:
the engine takes all of a row in before its next step."""
_ROW_BYTES, _TOKEN_BYTES = 2**16, 16
"""Of a row, and for each token of the engine's sequences, at most: its API server reads a row as a whole."""
_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)
"""Between the tries of a row at which a living engine fails."""
_BUSY_SECONDS = 1.0
_ENDING_SECONDS = 1.0
"""So long an engine that breaks off its rows is still there, at most: vLLM kills its process then."""
_PAGE_SECONDS = 60.0
"""For what the engine says of itself."""
_MOST_LOSSES = 3
"""Engines that may be lost over a row."""
_RESPONSES = "/v1/responses"
_TOO_LONG = "context length"
"""In vLLM's refusal of a prompt that is longer than the engine's sequences."""


class _LostError(Exception):
    """The engine went away."""

    def __init__(self, *, under_way: bool, is_known: bool = False) -> None:
        """`under_way`: the engine may have begun to work on the row. `is_known`: others have found it out."""
        super().__init__()
        self.under_way = under_way
        self.is_known = is_known


class EngineServer(Server):
    """`Server` at an address. An engine that is away is waited for; rows that were on their way are sent again.

    Not without end: it may be a row that ends the engine.
    """

    sequences = _SEQUENCES

    def __init__(
        self,
        client: httpx.AsyncClient,
        health: Health,
        on_tokens: Callable[[int], None],
        *,
        model: str,
        routes: tuple[str, ...],
        length: int,
        model_length: Callable[[], int | None],
    ) -> None:
        """`on_tokens`: told of each answer's tokens. `length`: most tokens of a sequence.

        `model_length`: those in any engine of the model, where it is known. It may take its time.
        """
        self.model = model
        """What the engine calls it."""
        self.routes = routes
        self.length = Length(length, length)
        self._model_length = model_length
        self._asked: asyncio.Future[int | None] | None = None
        self._client = client
        self._health = health
        self._intake = Intake()
        self._on_tokens = on_tokens
        self._answered = 0

    @override
    async def ask(self, route: str, body: dict[str, Any], request_id: str) -> Answer:
        self._check(route, body, request_id)
        before, pauses, losses = 0, list(_PAUSES_SECONDS), 0
        failed: int | None = None
        while True:
            try:
                response = await self._post(route, body, failed)
            except _LostError as error:
                # vLLM answers 500 to what is under way when its engine process dies, and is away a moment later.
                working = error.under_way or failed is not None
                losses += working
                if not error.is_known:
                    self._health.be_lost(working=working)
                if losses >= _MOST_LOSSES:
                    _refuse(f"{losses} engines were lost while they worked on {request_id}")
                await asyncio.sleep(_BUSY_SECONDS)
                await self._health.come_back()
                # What the last engine failed at says nothing of this one.
                pauses, failed = list(_PAUSES_SECONDS), None
                continue
            if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
                await asyncio.sleep(_BUSY_SECONDS)
            elif response.status_code == httpx.codes.NOT_FOUND and not await self._is_joined():
                raise WorkerError(RIDE_LOST, f"{self.model} is not at the engine's address any more", ExitCode.RETRY)
            elif not response.is_server_error or response.status_code == httpx.codes.NOT_IMPLEMENTED:
                return await self._answer(response, body, request_id)
            elif pauses:
                log.warning("the engine failed at a row", request=request_id, status=response.status_code)
                before, failed, self._health.is_failing = self._answered, self._health.losses, True
                await asyncio.sleep(pauses.pop(0))
            elif self._answered > before or await self._is_working(route):
                # Others were answered meanwhile, or one is now, so it is this one.
                return Answer(response.status_code, body_of(response))
            else:
                message = f"{request_id}: the engine answers {response.status_code}: {response.text[:500]}"
                raise WorkerError(RIDE_LOST, message, ExitCode.RETRY)

    def _check(self, route: str, body: dict[str, Any], request_id: str) -> None:
        """Raises `WorkerError` for a row that would hold up the requests in the engine's API server."""
        requests = requests_in(route, body)
        if requests > _SEQUENCES:
            _refuse(f"{request_id} is {requests} requests at once, and {_SEQUENCES} ride at most")
        size, most = len(json.dumps(body)), _ROW_BYTES + _TOKEN_BYTES * self.length.fitting
        if size > most:
            _refuse(f"{request_id} has {size} bytes, and rows of {most} at most ride in this engine")
        if has_prompt_logprobs(route, body):
            _refuse(f"{request_id} asks for the log probabilities of its prompt, which do not ride")
        if is_beam_search(body):
            _refuse(f"{request_id} asks for a beam search, which does not ride")

    async def _post(self, route: str, body: dict[str, Any], failed: int | None = None) -> httpx.Response:
        """`failed`: how many engines were lost when one failed at this row just now.

        Raises `_LostError`, and `WorkerError` where others have lost the engine and it does not come back.
        """
        name = row_id()
        if route == _RESPONSES:
            body = {**body, "request_id": f"resp_{name}"}
        content = json.dumps(body).encode()
        async with self._intake.turn(requests_in(route, body), len(content)):
            await self._health.come_back()
            if failed is not None and self._health.losses > failed:
                raise _LostError(under_way=True, is_known=True)
        try:
            response = await self._sent(route, content, name)
            if (
                response.is_success
                and is_json(response)
                and (is_aborted(response.json()) or not await self._stays(route))
            ):
                raise _LostError(under_way=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _LostError(under_way=False) from error
        except (httpx.TransportError, ValueError) as error:
            # Half an answer is none.
            raise _LostError(under_way=True) from error
        if response.is_success:
            self._health.is_failing = False
        return response

    async def _sent(self, route: str, content: bytes, name: str) -> httpx.Response:
        """The answer. Where the engine is closed before, the row's connection is, too: raises `_LostError` then."""
        headers = {"Content-Type": "application/json", ID_HEADER: name}
        answering = asyncio.ensure_future(self._client.post(route, content=content, headers=headers))
        closing = asyncio.ensure_future(self._health.closed.wait())
        try:
            await asyncio.wait((answering, closing), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                return answering.result()
            raise _LostError(under_way=True)
        finally:
            answering.cancel()
            closing.cancel()
            await asyncio.gather(answering, closing, return_exceptions=True)

    async def _answer(self, response: httpx.Response, body: dict[str, Any], request_id: str) -> Answer:
        if response.is_success and not is_json(response):
            self._answered += 1
            return unreadable(response)
        answer = body_of(response)
        closed = response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN, httpx.codes.NOT_FOUND)
        # A response that is not there is not in an engine of the job's own either.
        if closed and not body.get("previous_response_id"):
            _refuse(f"{request_id}: the engine answers {response.status_code}: {response.text[:500]}")
        if response.status_code == httpx.codes.BAD_REQUEST and _TOO_LONG in response.text:
            await self._refuse_shorter(f"{request_id} is longer than")
        if response.is_success:
            if is_cut(body, answer) and is_as_long(body, answer, self.length.fitting):
                await self._refuse_shorter(f"the answer to {request_id} ends at")
            self._answered += 1
            self._on_tokens(all_tokens(answer))
        return Answer(response.status_code, answer)

    async def _refuse_shorter(self, what: str) -> None:
        """What this engine's length does to a row is for an engine of the job's own, unless that would do the same."""
        if self._asked is None:
            self._asked = asyncio.ensure_future(asyncio.to_thread(self._model_length))
        own = await self._asked
        if own is None or own > self.length.fitting:
            _refuse(f"{what} the {self.length.fitting} tokens of the engine's sequences")

    async def _is_joined(self) -> bool:
        """Whether it is still the engine that was joined: the address of one that is gone may be another's by now."""
        try:
            return any(card["id"] == self.model for card in (await _get(self._client, "/v1/models"))["data"])
        except (KeyError, TypeError, WorkerError):
            return False

    async def _stays(self, route: str) -> bool:
        """Whether the engine is not about to end. Where an answer that it broke off looks like any other one."""
        if route != _RESPONSES:
            return True
        await asyncio.sleep(_ENDING_SECONDS)
        return await self._health.is_good()

    async def _is_working(self, route: str) -> bool:
        try:
            return (await self._post(route, {**ROUTES[route], "model": self.model})).is_success
        except _LostError:
            return False


async def joined(
    client: httpx.AsyncClient, health: Health, on_tokens: Callable[[int], None], model_length: Callable[[], int | None]
) -> EngineServer:
    """The engine at the client's address, when it answers. Raises `WorkerError`."""
    await health.come()
    models = await _get(client, "/v1/models")
    try:
        card = next(card for card in models["data"] if card.get("parent") is None)
        name, length = str(card["id"]), int(card["max_model_len"])
    except (AttributeError, KeyError, StopIteration, TypeError, ValueError):
        _refuse("what answers at the engine's address is no engine of vLLM's")
    served = tuple([route for route in ROUTES if await _serves(client, route)])
    return EngineServer(client, health, on_tokens, model=name, routes=served, length=length, model_length=model_length)


async def _serves(client: httpx.AsyncClient, route: str) -> bool:
    """Whether the engine has the route: a GET of it is then not allowed, else not found.

    It is not asked for its schema: while vLLM makes that, a second of CPU time or more, it answers nobody.
    """
    return (await _page(client, route)).status_code != httpx.codes.NOT_FOUND


async def _get(client: httpx.AsyncClient, path: str) -> Any:
    response = await _page(client, path)
    if not response.is_success:
        _refuse(f"the engine answers {response.status_code} at {path}")
    return body_of(response)


async def _page(client: httpx.AsyncClient, path: str) -> httpx.Response:
    try:
        response = await client.get(path, timeout=_PAGE_SECONDS)
    except httpx.TransportError as error:
        raise WorkerError(RIDE_LOST, f"the engine went away: {error}", ExitCode.RETRY) from error
    if response.is_server_error or response.status_code == httpx.codes.TOO_MANY_REQUESTS:
        # It passes, so it says nothing of what the engine can do.
        raise WorkerError(RIDE_LOST, f"the engine answers {response.status_code} at {path}", ExitCode.RETRY)
    return response


def _refuse(message: str) -> NoReturn:
    """The rows need an engine of their own."""
    raise WorkerError(RIDE_REFUSED, message, ExitCode.RETRY)
