"""A batch whose rows ride in a serving engine."""

import asyncio
import contextlib
import json
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from riding_tuner.matchmaker import Matchmaker
from runtime.batch_riding.engine import Engine

from rowen.crds.job.worker import BatchSpec, ExitCode, Location, ModelLocation
from rowen.crds.names import ENGINE_POD_ENV, ENGINE_URL_ENV, JOB_SPEC_ENV, RIDE_SOCKET_ENV
from rowen.runtime.batch.__main__ import answer_all
from rowen.runtime.batch.riding import engine as riding
from rowen.runtime.batch.riding import health
from rowen.runtime.batch.riding import job as riding_job
from rowen.runtime.batch.serving.routes import ROUTES
from rowen.runtime.coserve import ride_link as ride_link_module
from rowen.runtime.coserve.ride_link import ride_link
from rowen.runtime.failure import WorkerError
from rowen.runtime.native import NoTenant
from rowen.runtime.vllm.rows.marker import is_row, is_sent_as_row
from rowen.runtime.worker import Progress

ROWS = 30
TOO_LONG = (400, {"error": {"message": "This model's maximum context length is 100 tokens. However, ..."}})


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.end()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(riding, "_PAUSES_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(riding, "_BUSY_SECONDS", 0.01)
    monkeypatch.setattr(riding, "_ENDING_SECONDS", 0.05)
    monkeypatch.setattr(health, "_PERIOD_SECONDS", 0.05)


class Job:
    """A batch of `ROWS` rows in a folder."""

    def __init__(self, folder: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, model: str = "/nowhere") -> None:
        self.folder = folder
        rows = [
            _row(f"r{line}", "/v1/completions", {"prompt": f"p{line}", "model": "mine"}) for line in range(1, ROWS + 1)
        ]
        self.write(rows)
        spec = BatchSpec(
            model=ModelLocation(name_or_path=model),
            input=Location(where=str(folder / "in.jsonl")),
            output=Location(where=str(folder / "out.jsonl")),
            errors=Location(where=str(folder / "err.jsonl")),
            memory_bytes=1,
        )
        monkeypatch.setenv(JOB_SPEC_ENV, spec.model_dump_json(by_alias=True))
        monkeypatch.setenv(ENGINE_URL_ENV, engine.url)
        self.progress = Progress("rows", NoTenant())

    def write(self, rows: list[dict[str, Any]]) -> None:
        (self.folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(self) -> str:
        return answer_all(self.progress)

    def results(self, name: str = "out") -> dict[str, Any]:
        lines = [json.loads(line) for line in (self.folder / f"{name}.jsonl").read_bytes().splitlines()]
        found = {line["custom_id"]: line["response"] for line in lines}
        assert len(found) == len(lines), "a row was written twice"
        return found


@pytest.fixture
def job(tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path, engine, monkeypatch)


def test_each_row_is_answered_by_the_engine_once(job: Job, engine: Engine) -> None:
    job.run()
    results = job.results()
    assert results.keys() == {f"r{line}" for line in range(1, ROWS + 1)}
    # The engine's name of the model is its own affair, and the seed is that of any other attempt.
    assert {response["body"]["model"] for response in results.values()} == {"mine"}
    assert {body["model"] for _, body in engine.asked} == {"chat"}
    assert sorted(body["seed"] for _, body in engine.asked) == list(range(1, ROWS + 1))
    assert (job.progress.completed, job.progress.total, job.progress.tokens) == (ROWS, ROWS, ROWS * 10)


def test_every_request_says_that_it_is_a_row(job: Job, engine: Engine) -> None:
    job.write([_row("r", "/v1/responses", {"input": "a"})])
    job.run()
    [(name, body)] = engine.asked
    assert is_sent_as_row([(b"x-request-id", name.encode())])
    # Of this route vLLM makes the name from the body.
    assert is_row(body["request_id"])


def test_rows_are_sent_again_under_another_name_when_the_connection_breaks(job: Job, engine: Engine) -> None:
    engine.failures = [0, 503, 0, 500, 429]
    job.run()
    assert len(job.results()) == ROWS
    names = [name for name, _ in engine.asked]
    assert len(set(names)) == len(names) == ROWS + 5


def test_an_engine_that_comes_back_goes_on(job: Job, engine: Engine) -> None:
    engine.end()
    later = threading.Timer(0.5, engine.begin)
    later.start()
    job.run()
    later.join()
    assert len(job.results()) == ROWS


def test_rows_of_an_engine_that_ends_are_given_up_and_sent_to_the_next(
    job: Job, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_REFUSED_SECONDS", 0.01)
    monkeypatch.setattr(health.Health.__init__, "__defaults__", (20.0,))
    engine.is_silent, given_up = True, []

    def replace() -> None:
        _wait_asked(engine, ROWS)
        engine.end()
        given_up.extend(engine.hung_up.acquire(timeout=20) for _ in range(ROWS))
        engine.is_silent = False
        engine.begin()

    replacing = threading.Thread(target=replace)
    replacing.start()
    job.run()
    replacing.join()
    assert given_up == [True] * ROWS
    assert len(job.results()) == ROWS
    assert len(engine.asked) == 2 * ROWS


async def test_rows_of_an_engine_that_takes_its_time_stay(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_REFUSED_SECONDS", 0.0)
    monkeypatch.setattr(health, "_ANSWER_SECONDS", 0.05)
    engine.is_silent, engine.found = True, {"/health": 0}
    async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as client:
        watched = health.Health(client, None)
        server = riding.EngineServer(
            client, watched, print, model="chat", routes=(), length=100, model_length=lambda: None
        )
        row = asyncio.create_task(server.ask("/v1/completions", {"prompt": "p", "model": "chat"}, "r"))
        await asyncio.to_thread(_wait_asked, engine, 1)
        assert [await watched.is_good() for _ in range(4)] == [False] * 4
        assert not row.done()
        assert not engine.hung_up.acquire(blocking=False)
        row.cancel()
    engine.heard.set()


@pytest.mark.parametrize("status", [0, 500])
def test_an_engine_that_ends_over_rows_and_stays_away_is_told(
    job: Job, engine: Engine, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(health.Health.__init__, "__defaults__", (0.3,))
    asked, left = threading.Event(), threading.Event()
    answer = engine.answer

    def slow(*request: Any) -> tuple[int, Any]:
        asked.set()
        left.wait(10)
        return answer(*request)

    monkeypatch.setattr(engine, "answer", slow)
    engine.bad = {f"p{line}": (status, {}) for line in range(1, ROWS + 1)}

    def leave() -> None:
        asked.wait(10)
        engine.end()
        left.set()

    leaving = threading.Thread(target=leave)
    leaving.start()
    with pytest.raises(WorkerError) as raised:
        job.run()
    leaving.join()
    engine.begin()
    assert (raised.value.reason, raised.value.code) == ("RideBroken", ExitCode.RETRY)


@pytest.mark.parametrize("pod", ["chat-a", None])
def test_the_named_engine_is_asked_and_comes_back_under_its_name(
    job: Job, engine: Engine, monkeypatch: pytest.MonkeyPatch, pod: str | None
) -> None:
    monkeypatch.setenv(ENGINE_POD_ENV, "chat-a")
    engine.pod, engine.failures = pod, [0, 0]
    job.run()
    assert len(job.results()) == ROWS


@pytest.mark.parametrize("said", ["chat-b", None])
def test_who_has_the_engines_address_by_now_gets_no_row(
    job: Job, engine: Engine, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    monkeypatch.setattr(health.Health.__init__, "__defaults__", (0.3,))
    monkeypatch.setenv(ENGINE_POD_ENV, "chat-a")
    engine.pod = "chat-a"

    def replaced(_path: str, name: str, body: dict[str, Any]) -> tuple[int, Any]:
        engine.asked.append((name, body))
        while len(engine.asked) < ROWS:
            time.sleep(0.005)
        engine.pod = said
        return 0, None

    monkeypatch.setattr(engine, "answer", replaced)
    with pytest.raises(WorkerError, match="does not answer for") as raised:
        job.run()
    assert raised.value.reason == "RideBroken"
    assert len(engine.asked) == ROWS


async def test_no_row_goes_out_while_others_have_lost_the_engine(engine: Engine) -> None:
    engine.pod = "chat-b"
    async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as client:
        watched = health.Health(client, "chat-a", lost_seconds=0.1)
        server = riding.EngineServer(
            client, watched, print, model="chat", routes=(), length=100, model_length=lambda: None
        )
        watched.is_lost = True
        with pytest.raises(WorkerError):
            await server.ask("/v1/completions", {"prompt": "p", "model": "chat"}, "r")
        assert engine.asked == []
        engine.pod = "chat-a"
        assert (await server.ask("/v1/completions", {"prompt": "p", "model": "chat"}, "r")).status == 200
        assert not watched.is_lost


class OthersFindOut(health.Health):
    """Others have lost the engine, and it is back, whenever it has failed at a row."""

    async def come_back(self) -> None:
        if self.is_failing:
            self.be_lost(working=False)
            self.is_lost = self.is_failing = False


async def test_engines_that_others_lose_after_they_failed_at_a_row_count_against_it(engine: Engine) -> None:
    engine.turns = {"p": [500, 500, 500]}
    async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as client:
        watched = OthersFindOut(client, None)
        server = riding.EngineServer(
            client, watched, print, model="chat", routes=(), length=100, model_length=lambda: None
        )
        with pytest.raises(WorkerError, match="3 engines were lost while they worked on r") as raised:
            await server.ask("/v1/completions", {"prompt": "p", "model": "chat"}, "r")
    assert raised.value.reason == "RideRefused"
    assert len(engine.asked) == 3
    # The new engine is not lost for it.
    assert (watched.losses, watched.is_lost) == (3, False)


async def test_each_try_of_a_row_takes_its_turn_by_what_it_is(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[tuple[int, int]] = []

    @contextlib.asynccontextmanager
    async def turn(requests: int, row_bytes: int) -> AsyncIterator[None]:
        turns.append((requests, row_bytes))
        yield

    monkeypatch.setattr(riding, "Intake", lambda: SimpleNamespace(turn=turn))
    engine.turns = {"p": [500]}
    body = {"prompt": "p", "model": "chat", "n": 3}
    async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as client:
        server = riding.EngineServer(
            client, health.Health(client, None), print, model="chat", routes=(), length=100, model_length=lambda: None
        )
        assert (await server.ask("/v1/completions", body, "r")).status == 200
    assert turns == [(3, len(json.dumps(body)))] * 2


def test_an_engine_that_is_not_there_is_lost(job: Job, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.Health.__init__, "__defaults__", (0.3,))
    engine.end()
    with pytest.raises(WorkerError, match="does not answer for") as raised:
        job.run()
    engine.begin()
    assert (raised.value.reason, raised.value.code) == ("RideLost", ExitCode.RETRY)


@pytest.mark.parametrize(("status", "reason"), [
    (503, "RideLost"), (500, "RideLost"), (429, "RideLost"), (0, "RideLost"), (401, "RideRefused"),
])  # fmt: skip
def test_an_engine_that_cannot_say_what_it_is_now_is_asked_another_time(
    job: Job, engine: Engine, monkeypatch: pytest.MonkeyPatch, status: int, reason: str
) -> None:
    if not status:
        monkeypatch.setattr(riding, "_PAGE_SECONDS", 0.2)
    engine.found = {"/v1/models": status}
    with pytest.raises(WorkerError, match=str(status or "went away")) as raised:
        job.run()
    engine.heard.set()
    assert raised.value.reason == reason


def test_a_row_that_always_fails_is_an_error_of_its_own(job: Job, engine: Engine) -> None:
    engine.bad = {"p3": (500, {"error": {"message": "bad row"}}), "p5": (400, {"error": {"message": "no such field"}})}
    job.run()
    assert {name: response["status_code"] for name, response in job.results("err").items()} == {"r3": 500, "r5": 400}
    assert len(job.results()) == ROWS - 2


@pytest.mark.parametrize("refused", [
    (401, {"error": "Unauthorized"}),
    (404, {"error": {"message": "The model `chat` does not exist."}}),
    TOO_LONG,
])  # fmt: skip
def test_what_only_another_engine_can_answer_is_refused(job: Job, engine: Engine, refused: tuple[int, Any]) -> None:
    engine.bad = {"p9": refused}
    with pytest.raises(WorkerError) as raised:
        job.run()
    assert (raised.value.reason, raised.value.code) == ("RideRefused", ExitCode.RETRY)


def test_an_answer_that_is_no_json_is_an_error_of_its_row(job: Job, engine: Engine) -> None:
    engine.bad = {"p3": (200, bytes(16))}
    job.run()
    response = job.results("err")["r3"]
    assert response["status_code"] == 501
    assert response["body"]["error"]["message"] == "the answer is application/octet-stream, and a result holds JSON"
    assert len(job.results()) == ROWS - 1


async def test_a_row_of_very_many_requests_is_for_an_engine_of_its_own() -> None:
    nobody: Any = None
    server = riding.EngineServer(nobody, nobody, print, model="chat", routes=(), length=100, model_length=lambda: None)
    with pytest.raises(WorkerError, match="r1 is 65 requests at once, and 64 ride at most") as raised:
        await server.ask("/v1/completions", {"prompt": ["a"] * 65}, "r1")
    assert (raised.value.reason, raised.value.code) == ("RideRefused", ExitCode.RETRY)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"prompt": "a" * 67_136}, "r1 has 67150 bytes, and rows of 67136 at most ride"),
        ({"prompt": "a", "prompt_logprobs": 0}, "r1 asks for the log probabilities of its prompt"),
        ({"prompt": "a", "echo": True, "logprobs": 0}, "r1 asks for the log probabilities of its prompt"),
        ({"prompt": "a", "use_beam_search": True}, "r1 asks for a beam search"),
        ({"prompt": ["a", "b"], "n": "9" * 4300}, "r1 is 4294967296 requests at once"),
    ],
)
async def test_a_row_that_would_hold_up_the_api_server_is_for_an_engine_of_its_own(
    body: dict[str, Any], words: str
) -> None:
    nobody: Any = None
    server = riding.EngineServer(nobody, nobody, print, model="chat", routes=(), length=100, model_length=lambda: None)
    with pytest.raises(WorkerError, match=words) as raised:
        await server.ask("/v1/completions", body, "r1")
    assert (raised.value.reason, raised.value.code) == ("RideRefused", ExitCode.RETRY)


def test_rows_as_large_as_may_be_and_log_probabilities_of_answers_ride(job: Job) -> None:
    length = 2**16 + 16 * 100 - len(json.dumps({"prompt": "", "model": "chat", "seed": 1}))
    bodies = [
        {"prompt": "a" * length},
        {"prompt": "b", "echo": True},
        {"prompt": "c", "logprobs": 1, "use_beam_search": False},
    ]
    job.write([_row(f"r{line}", "/v1/completions", body) for line, body in enumerate(bodies, start=1)])
    job.run()
    assert len(job.results()) == 3


async def test_a_response_that_is_not_there_is_the_rows_own_affair() -> None:
    nobody: Any = None
    server = riding.EngineServer(nobody, nobody, print, model="chat", routes=(), length=100, model_length=lambda: None)
    said = httpx.Response(404, json={"error": {"message": "Response with id 'resp_1' not found."}})
    assert (await server._answer(said, {"previous_response_id": "resp_1"}, "r1")).status == 404
    with pytest.raises(WorkerError, match="r1: the engine answers 404"):
        await server._answer(said, {"input": "a"}, "r1")


def test_an_answer_that_the_engines_length_cuts_is_refused(job: Job, engine: Engine) -> None:
    engine.finish, engine.tokens = "length", 99
    job.run()
    job.folder.joinpath("out.jsonl").unlink()
    for left in job.folder.glob(".*"):
        left.unlink()
    engine.tokens = 100
    with pytest.raises(WorkerError, match="ends at the 100 tokens"):
        job.run()


def test_what_is_too_long_for_the_model_is_too_long_in_any_engine(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, engine, monkeypatch, model=_model(tmp_path, 100))
    engine.bad, engine.finish, engine.tokens = {"p9": TOO_LONG}, "length", 100
    job.run()
    assert job.results("err").keys() == {"r9"}
    assert len(job.results()) == ROWS - 1


def test_a_model_that_takes_longer_rows_takes_them_in_an_engine_of_the_jobs_own(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, engine, monkeypatch, model=_model(tmp_path, 101))
    engine.bad = {"p9": TOO_LONG}
    with pytest.raises(WorkerError, match="longer than the 100 tokens") as raised:
        job.run()
    assert raised.value.reason == "RideRefused"


def _model(folder: Path, length: int) -> str:
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"max_position_embeddings": length}))
    return str(model)


@pytest.mark.parametrize("lost", ["breaks", "aborts", "says no JSON"])
def test_a_row_that_ends_engines_is_refused(job: Job, engine: Engine, lost: str) -> None:
    aborted = {"choices": [{"text": "a", "finish_reason": "abort"}]}
    engine.bad = {"p7": {"breaks": (0, None), "aborts": (200, aborted), "says no JSON": (200, b"<html>")}[lost]}
    with pytest.raises(WorkerError, match="3 engines were lost while they worked on") as raised:
        job.run()
    assert (raised.value.reason, raised.value.code) == ("RideRefused", ExitCode.RETRY)
    assert sum(body["prompt"] == "p7" for _, body in engine.asked) == 3


def test_an_engine_that_comes_back_begins_anew_with_a_row(job: Job, engine: Engine) -> None:
    engine.turns = {"p5": [500, 500, 0, 500, 500, 0, 500]}
    job.run()
    assert job.results()["r5"]["status_code"] == 200


def test_rows_that_an_engine_fails_at_as_it_ends_are_no_errors(
    job: Job, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = engine.answer

    def failing(path: str, name: str, body: dict[str, Any]) -> tuple[int, Any]:
        if body["prompt"] not in ("p5", "a"):
            return answer(path, name, body)
        # The others' answers arrive before this one does.
        while job.progress.tokens < (ROWS - 1) * 10:
            time.sleep(0.01)
        return 500, {"error": {"message": "the engine is dead"}}

    monkeypatch.setattr(engine, "answer", failing)
    with pytest.raises(WorkerError, match="the engine answers 500") as raised:
        job.run()
    assert raised.value.reason == "RideLost"


def test_what_was_answered_stays_for_the_next_attempt(job: Job, engine: Engine) -> None:
    engine.bad = {f"p{ROWS}": (403, {})}
    with pytest.raises(WorkerError):
        job.run()
    before = len(engine.asked)
    engine.bad = {}
    job.run()
    assert len(job.results()) == ROWS
    assert len(engine.asked) - before <= ROWS


def test_an_aborted_answer_is_none(job: Job, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, aborted = engine.answer, []

    def once(path: str, name: str, body: dict[str, Any]) -> tuple[int, Any]:
        status, said = answer(path, name, body)
        if body["prompt"] == "p4" and not aborted:
            aborted.append(name)
            said["choices"][0]["finish_reason"] = "abort"
        return status, said

    monkeypatch.setattr(engine, "answer", once)
    job.run()
    assert job.results()["r4"]["body"]["choices"][0]["finish_reason"] == "stop"


def test_an_answer_that_is_followed_by_the_engines_end_is_none(
    job: Job, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.write([_row("r", "/v1/responses", {"input": "a"})])
    answer, stays = engine.answer, riding.EngineServer._stays

    def ending(*request: Any) -> tuple[int, Any]:
        engine.found = {"/health": 503} if not engine.asked else {}
        return answer(*request)

    async def asked(server: riding.EngineServer, route: str) -> bool:
        found = await stays(server, route)
        engine.found = {}
        return found

    monkeypatch.setattr(engine, "answer", ending)
    monkeypatch.setattr(riding.EngineServer, "_stays", asked)
    job.run()
    assert len(job.results()) == 1
    assert len(engine.asked) == 2


def test_routes_that_the_engine_has_not_are_told(job: Job, engine: Engine) -> None:
    job.write([_row("r", "/v1/embeddings", {"input": "a"})])
    job.run()
    [line] = [json.loads(line) for line in (job.folder / "err.jsonl").read_text().splitlines()]
    assert "this model answers at /v1/completions, /v1/responses, /v1/messages, /tokenize" in line["error"]["message"]
    assert engine.asked == []


def test_an_engine_is_not_asked_for_its_schema(job: Job, engine: Engine) -> None:
    """While it makes that it answers nobody."""
    job.run()
    assert set(engine.pages) == {"/health", "/v1/models", *ROUTES}


@pytest.mark.parametrize("status", [503, 429])
def test_a_route_of_which_the_engine_cannot_tell_now_is_asked_for_another_time(
    job: Job, engine: Engine, status: int
) -> None:
    engine.found = {"/score": status}
    with pytest.raises(WorkerError, match=f"the engine answers {status} at /score") as raised:
        job.run()
    assert raised.value.reason == "RideLost"


def test_each_agent_that_comes_knows_of_a_batch_while_its_rows_are_on_their_way(
    job: Job, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first answer, and before the next."""
    monkeypatch.setattr(riding_job, "STAY_SECONDS", 0.005)
    monkeypatch.setattr(ride_link_module, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(ride_link_module, "_LONGEST_PAUSE_SECONDS", 0.0)
    answer, turn = engine.answer, threading.Lock()
    heard: list[list[bool]] = []

    def slow(*request: Any) -> tuple[int, Any]:
        with turn:
            if len(heard) < 2:
                with Matchmaker(folder) as agent:
                    while not agent.hellos:
                        time.sleep(0.005)
                heard.append([hello.pair for hello in agent.hellos])
        return answer(*request)

    monkeypatch.setattr(engine, "answer", slow)
    with tempfile.TemporaryDirectory(prefix="ride-") as name:
        folder = Path(name)
        monkeypatch.setenv(RIDE_SOCKET_ENV, str(folder / "job"))
        ride_link.cache_clear()
        job.run()
        ride_link.cache_clear()
    assert heard == [[False], [False]]
    assert len(job.results()) == ROWS


def _wait_asked(engine: Engine, times: int) -> None:
    while len(engine.asked) < times:
        time.sleep(0.01)


def _row(name: str, url: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"custom_id": name, "method": "POST", "url": url, "body": body}
