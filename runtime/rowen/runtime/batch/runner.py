"""The batch loop: rows in, groups of results out."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import structlog

from rowen.runtime.batch.output import Output
from rowen.runtime.batch.results import Result, problem_result, response_result, result_id
from rowen.runtime.batch.room import SAMPLING_ROUTES, Room, requests_in
from rowen.runtime.batch.rows import Row, RowContent, Rows
from rowen.runtime.batch.serving.length import cut_by_memory
from rowen.runtime.batch.serving.server import Answer, Server
from rowen.runtime.worker import Progress

log = structlog.get_logger()

_GROUP_ROWS = 256


def write_problems(rows: Rows, output: Output) -> None:
    """Writes the results of the lines that are no rows. Raises `WorkerError`, `OSError`."""
    missing = (problem_result(row, row.problem or "") for row in rows.problems() if row.line not in output.done)
    while group := list(islice(missing, _GROUP_ROWS)):
        output.append(group)


class BatchRunner:
    """Keeps the server busy, and writes what it answers in groups."""

    def __init__(self, server: Server, output: Output, progress: Progress, model: str) -> None:
        """`model`: what the server calls the model that answers."""
        self._server, self._output, self._progress, self._model = server, output, progress, model
        # Some more than are worked on, so that no place is ever empty.
        self._window = server.sequences + max(4, server.sequences // 4)
        self._room = Room(self._window)
        self._results: asyncio.Queue[Result | None] = asyncio.Queue(_GROUP_ROWS)

    async def run(self, rows: Rows) -> None:
        """Answers what is not done yet. Raises `WorkerError`, `OSError`."""
        waiting = (line for line in rows if line not in self._output.done)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._write(len(rows)))
                async with asyncio.TaskGroup() as askers:
                    for _ in range(min(self._window, len(rows))):
                        askers.create_task(self._ask(rows, waiting))
                await self._results.put(None)
        except ExceptionGroup as errors:
            raise _first(errors) from errors

    async def _ask(self, rows: Rows, waiting: Iterator[int]) -> None:
        for line in waiting:
            row = rows.row(line)
            if row.content is not None:
                await self._results.put(await self._result(row, row.content))

    async def _result(self, row: Row, content: RowContent) -> Result:
        if content.url not in self._server.routes:
            served = ", ".join(self._server.routes)
            return problem_result(row, f"line {row.line}: url {content.url!r}: this model answers at {served}")
        async with self._room.taken(requests_in(content.url, content.body)):
            answer = await self._server.ask(content.url, self._request(row.line, content), result_id(row.line))
        cut = cut_by_memory(content.body, answer.body, self._server.length)
        if cut is not None:
            answer = Answer(400, {"error": {"message": cut, "type": "BadRequestError", "param": None, "code": 400}})
        if isinstance(answer.body, dict) and "model" in answer.body and "model" in content.body:
            answer.body["model"] = content.body["model"]
        return response_result(row, answer.status, answer.body)

    def _request(self, line: int, content: RowContent) -> dict[str, Any]:
        """The row's body as it is sent: to the job's one model, and with a seed, so that all attempts agree."""
        body = content.body | {"model": self._model}
        if content.url in SAMPLING_ROUTES and body.get("temperature") != 0 and body.get("seed") is None:
            body["seed"] = line
        return body

    async def _write(self, total: int) -> None:
        last = False
        while not last:
            group = await self._gathered()
            last = group[-1] is None
            results = [result for result in group if result is not None]
            if results:
                await asyncio.to_thread(self._output.append, results)
                self._progress.report(len(self._output.done), total)

    async def _gathered(self) -> list[Result | None]:
        """What comes in the output's time, as far as it goes into a group and up to the end."""
        group = [await self._results.get()]
        with suppress(TimeoutError):
            async with asyncio.timeout(self._output.group_seconds):
                while group[-1] is not None and len(group) < _GROUP_ROWS:
                    group.append(await self._results.get())
        return group


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """One error: what the others are is in the log."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
