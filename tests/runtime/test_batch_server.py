"""What the batch worker does when vLLM fails at a row: another attempt, unless it is that row alone."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from rowen.crds.job.worker import ExitCode
from rowen.runtime.batch.serving import server as serving
from rowen.runtime.batch.serving.server import Answer, VllmServer
from rowen.runtime.failure import WorkerError

ROUTE = "/v1/completions"
FAILURE = {"error": {"message": "", "type": "InternalServerError", "code": 500}}


class Failing:
    """An application that fails at the prompt `bad`, and waits for `go` first; an engine that lives."""

    def __init__(self, failure: Response, *, all_fail: bool = False, dies_of_it: bool = False) -> None:
        """`all_fail`: whatever is asked fails. `dies_of_it`: the engine ends at it."""
        self.tries, self.others, self.came, self.go = 0, 0, asyncio.Event(), asyncio.Event()
        sizes = SimpleNamespace(max_num_seqs=2)
        self.engine = SimpleNamespace(
            errored=False,
            vllm_config=SimpleNamespace(scheduler_config=sizes),
            model_config=SimpleNamespace(max_model_len=10),
        )
        app = FastAPI()

        @app.post(ROUTE)
        async def answer(request: Request) -> Response:
            if (await request.json())["prompt"] != "bad":
                self.others += 1
                self.engine.errored = dies_of_it
                return failure if all_fail or dies_of_it else JSONResponse({})
            self.tries += 1
            self.came.set()
            await self.go.wait()
            return failure

        self.server = VllmServer(app, self.engine, 10)  # type: ignore[arg-type]

    async def ask(self, prompt: str) -> Answer:
        return await self.server.ask(ROUTE, {"prompt": prompt, "model": "m"}, prompt)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_PAUSES_SECONDS", (0.0, 0.0))


@pytest.mark.parametrize(
    ("failure", "body"),
    [
        (JSONResponse(FAILURE, 500), FAILURE),
        (PlainTextResponse("no", 503), {"error": {"message": "no", "type": "InternalServerError", "code": 503}}),
    ],
    ids=["JSON", "text"],
)
async def test_a_row_that_fails_while_others_are_answered_is_at_fault(failure: Response, body: Any) -> None:
    vllm = Failing(failure)
    asking = asyncio.create_task(vllm.ask("bad"))
    await vllm.came.wait()
    assert await vllm.ask("good") == Answer(200, {})
    vllm.go.set()
    assert await asking == Answer(failure.status_code, body)
    assert vllm.tries == 3


async def test_the_only_row_is_at_fault_where_a_small_request_is_answered() -> None:
    vllm = Failing(JSONResponse(FAILURE, 500))
    vllm.go.set()
    assert await vllm.ask("bad") == Answer(500, FAILURE)
    assert (vllm.tries, vllm.others) == (3, 1)


async def test_where_nothing_is_answered_it_is_not_the_rows_fault() -> None:
    vllm = Failing(JSONResponse(FAILURE, 500), all_fail=True)
    vllm.go.set()
    with pytest.raises(WorkerError, match="bad: vLLM answers 500") as caught:
        await vllm.ask("bad")
    assert (caught.value.code, vllm.tries, vllm.others) == (ExitCode.RETRY, 3, 1)


async def test_an_engine_that_ends_at_the_small_request_is_not_the_rows_fault() -> None:
    vllm = Failing(JSONResponse(FAILURE, 500), dies_of_it=True)
    vllm.go.set()
    with pytest.raises(WorkerError, match="engine has ended") as caught:
        await vllm.ask("bad")
    assert (caught.value.code, vllm.others) == (ExitCode.RETRY, 1)


async def test_an_engine_that_has_ended_is_asked_no_more() -> None:
    vllm = Failing(JSONResponse(FAILURE, 500))
    vllm.engine.errored = True
    vllm.go.set()
    with pytest.raises(WorkerError, match="engine has ended") as caught:
        await vllm.ask("bad")
    assert (caught.value.code, vllm.tries) == (ExitCode.RETRY, 1)
