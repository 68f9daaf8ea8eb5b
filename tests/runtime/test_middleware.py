"""The life of a request as the device sees it."""

import asyncio
from collections.abc import Callable

import pytest
from runtime.recorder import Recorder

from rowen.crds.names import ENGINE_POD_ENV
from rowen.runtime.vllm import middleware
from rowen.runtime.vllm.middleware import App, LifecycleMiddleware, Message, Receive, Scope, Send
from rowen.runtime.vllm.rows.marker import row_id

EVENT = b'data: {"choices":[{"index":0,"text":"a"}]}\n\n'
STREAM = [(b"content-type", b"text/event-stream; charset=utf-8")]

Wrap = Callable[[App], LifecycleMiddleware]


@pytest.fixture
def wrap(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Wrap:
    monkeypatch.setattr(middleware, "online", lambda: recorder)
    return LifecycleMiddleware


def post(path: str = "/v1/completions", **more: object) -> Scope:
    return {"type": "http", "method": "POST", "path": path, "root_path": "", **more}


async def receive() -> Message:
    return {"type": "http.request", "body": b"{}"}


async def swallow(_message: Message) -> None:
    pass


def streaming(recorder: Recorder, tokens: int) -> App:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        recorder.events.append("app")
        await send({"type": "http.response.start", "status": 200, "headers": STREAM})
        for _ in range(tokens):
            await send({"type": "http.response.body", "body": EVENT, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})
        recorder.events.append("background")

    return app


async def test_busy_before_the_application_and_idle_when_the_body_has_ended(wrap: Wrap, recorder: Recorder) -> None:
    await wrap(streaming(recorder, 3))(post(), receive, swallow)
    # Recorded while the request still holds the gate, or the next stop could be counted as its own.
    assert recorder.events == ["busy", "app", "record", "idle", "background"]


async def test_a_streamed_response_is_recorded(wrap: Wrap, recorder: Recorder) -> None:
    await wrap(streaming(recorder, 3))(post(), receive, swallow)
    [(ttft, tpot, tokens, tenant)] = recorder.records
    assert ttft > 0
    assert tpot > 0
    assert (tokens, tenant) == (3, True)
    assert recorder.preemptions == [1]


async def test_a_response_in_one_piece_is_counted_but_has_no_times_to_record(wrap: Wrap, recorder: Recorder) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b'{"choices":[]}'})

    await wrap(app)(post("/v1/chat/completions"), receive, swallow)
    assert recorder.events == ["busy", "idle"]
    assert recorder.records == []


async def test_the_gate_stays_closed_until_the_client_has_gone(wrap: Wrap, recorder: Recorder) -> None:
    started = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": STREAM})
        await send({"type": "http.response.body", "body": EVENT, "more_body": True})
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(wrap(app)(post(), receive, swallow))
    await started.wait()
    recorder.open_if_idle()
    assert recorder.closed
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recorder.events == ["busy", "record", "idle"]
    assert recorder.records[0][2:] == (1, True)
    assert recorder.preemptions == [1]


async def test_an_error_passes_through_and_lowers(wrap: Wrap, recorder: Recorder) -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await wrap(app)(post(), receive, swallow)
    assert recorder.in_flight == 0


@pytest.mark.parametrize(
    "scope",
    [
        post("/tokenize"),
        post("/v1/load_lora_adapter"),
        {"type": "http", "method": "GET", "path": "/v1/models", "root_path": ""},
        {"type": "lifespan"},
        {"type": "websocket", "path": "/v1/completions"},
    ],
)
async def test_other_connections_are_left_alone(wrap: Wrap, recorder: Recorder, scope: Scope) -> None:
    sends: list[Send] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        sends.append(send)

    await wrap(app)(scope, receive, swallow)
    assert sends == [swallow]
    assert recorder.events == []


async def test_routes_are_found_below_a_root_path(wrap: Wrap, recorder: Recorder) -> None:
    await wrap(streaming(recorder, 1))(post("/llm/v1/completions", root_path="/llm"), receive, swallow)
    assert recorder.events[0] == "busy"


async def test_overlapping_requests_meet_one_preemption_each_at_most(wrap: Wrap, recorder: Recorder) -> None:
    app = wrap(streaming(recorder, 2))

    async def slow_send(_message: Message) -> None:
        recorder.open_if_idle()
        await asyncio.sleep(0)
        recorder.open_if_idle()

    for _ in range(5):
        await asyncio.gather(*(app(post(), receive, slow_send) for _ in range(4)))
        recorder.open_if_idle()
    assert len(recorder.records) == 20
    assert max(recorder.preemptions) == 1
    assert recorder.in_flight == 0


async def test_without_a_device_the_application_is_called_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "online", lambda: None)
    seen: list[Send] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        seen.append(send)

    await LifecycleMiddleware(app)(post(), receive, swallow)
    assert seen == [swallow]


async def test_a_row_that_rides_is_not_in_flight(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "online", lambda: recorder)
    row = [(b"x-request-id", row_id().encode())]
    await LifecycleMiddleware(streaming(recorder, 3), rows_ride=True)(post(headers=row), receive, swallow)
    assert (recorder.events, recorder.records) == (["app", "background"], [])
    # What only says so counts where none rides, and what says nothing counts everywhere.
    await LifecycleMiddleware(streaming(recorder, 3))(post(headers=row), receive, swallow)
    await LifecycleMiddleware(streaming(recorder, 3), rows_ride=True)(post(headers=[]), receive, swallow)
    assert recorder.events.count("busy") == 2


@pytest.mark.parametrize(("path", "named"), [("/health", True), ("/v1/models", False)])
async def test_an_engine_that_knows_its_pod_says_its_name_with_its_health(
    wrap: Wrap, monkeypatch: pytest.MonkeyPatch, path: str, named: bool
) -> None:
    own = [(b"content-length", b"0")]

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": own})
        await send({"type": "http.response.body", "body": b""})

    async def said() -> list[Message]:
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await wrap(app)({"type": "http", "method": "GET", "path": path, "root_path": ""}, receive, keep)
        return messages

    before = await said()
    monkeypatch.setenv(ENGINE_POD_ENV, "chat-a")
    start, body = await said()
    assert start["headers"] == [*own, *([(b"x-rowen-pod", b"chat-a")] if named else [])]
    assert before == [{**start, "headers": own}, body]
