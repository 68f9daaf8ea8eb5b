"""The replayer against a server of this process, which answers when the test says so."""

import asyncio
import json
import time

import pytest

from rowen.demo.traffic.replay import MAX_REQUESTS, Progress, replay
from rowen.demo.traffic.scaling import Request


class Server:
    """Answers /v1/completions as a stream; holds back the end of each answer until `release` is set."""

    def __init__(self, status="200 OK", tokens=None):
        self.status, self.tokens = status, tokens
        self.event = 'data: {"choices": [{"text": "a"}]}\n\n'
        self.release = asyncio.Event()
        self.arrived = asyncio.Semaphore(0)
        self.received = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self.release.set()
        self._server.close()

    async def _serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        self.received.append(body)
        self.arrived.release()
        writer.write(f"HTTP/1.1 {self.status}\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".encode())
        for byte in self.event.encode():
            writer.write(bytes([byte]))
            await writer.drain()
        await self.release.wait()
        tokens = body["max_tokens"] if self.tokens is None else self.tokens
        usage = json.dumps({"choices": [], "usage": {"completion_tokens": tokens}})
        writer.write(f'data: {{"choices": [{{"text": "b"}}]}}\n\ndata: {usage}\n\ndata: [DONE]\n\n'.encode())
        await writer.drain()
        writer.close()


REQUESTS = [Request(0.0, (9, 10), 2), Request(0.01, (11,), 3)]


async def send(server, requests=REQUESTS, **options):
    return await replay(requests, endpoint=lambda: server.url, model="chat", progress=Progress(), **options)


async def test_each_request_is_timed():
    async with Server() as server:
        server.release.set()
        outcomes = await send(server)
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert [outcome.tokens for outcome in outcomes] == [2, 3]
    assert all(outcome.ttft > 0 and outcome.tpot >= 0 for outcome in outcomes)
    assert [body["prompt"] for body in server.received] == [[9, 10], [11]]


async def test_an_answer_is_read_whatever_characters_and_pieces_it_comes_in():
    async with Server() as server:
        server.event = 'data: {"choices": [{"text": "\u2028\x85"}]}\r\n\r\n'
        server.release.set()
        found = (await send(server, REQUESTS[:1]))[0]
    assert (found.error, found.tokens) == (None, 2)


async def test_arrivals_do_not_wait_for_answers():
    async with Server() as server:
        progress = Progress()
        running = asyncio.create_task(replay(REQUESTS, endpoint=lambda: server.url, model="chat", progress=progress))
        for _ in REQUESTS:
            await server.arrived.acquire()
        assert progress.in_flight == 2
        assert not progress.outcomes
        server.release.set()
        await running
    assert progress.in_flight == 0


@pytest.mark.parametrize(
    ("server", "message"), [(Server("503 Busy"), "HTTP 503"), (Server(tokens=1), "1 tokens instead of 2")]
)
async def test_a_bad_answer_is_an_error(server, message):
    server.release = asyncio.Event()
    async with server:
        server.release.set()
        outcomes = await send(server, REQUESTS[:1])
    assert message in outcomes[0].error


async def test_an_answer_that_does_not_end_is_an_error():
    async with Server() as server:
        outcomes = await send(server, REQUESTS[:1], limit=0.1)
    assert "Timeout" in outcomes[0].error


async def test_no_server_is_an_error():
    async with Server() as server:
        url = server.url
    outcomes = await replay(REQUESTS[:1], endpoint=lambda: url, model="chat", progress=Progress())
    assert outcomes[0].error is not None


async def test_a_replayer_that_stands_still_tells_how_late_it_read():
    """It stands still between the first token and the rest, so its own delay is in no lateness."""
    async with Server() as server:
        running = asyncio.create_task(send(server, REQUESTS[:1]))
        await server.arrived.acquire()
        time.sleep(0.3)  # noqa: ASYNC251 - the loop is meant to stand still
        server.release.set()
        found = (await running)[0]
    assert found.error is None
    assert found.lag > 0.2


async def test_a_replay_is_bounded():
    with pytest.raises(ValueError, match="at most"):
        await replay(REQUESTS * MAX_REQUESTS, endpoint=lambda: "", model="chat", progress=Progress())
