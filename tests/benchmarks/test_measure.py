"""Warm-ups and repeats against a server of this process; nothing else of a colocation is real."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from colocation.flags import Mode
from colocation.measure import Arm, WarmUp, measure, warm_up
from reporting.blocks import Block

from rowen.demo.traffic.scaling import Request

REQUESTS = [Request(0.0, (9,), 2), Request(0.01, (10,), 2), Request(4.0, (11,), 2)]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.prompts.append(body["prompt"])
        self.send_response(200 if self.server.works else 503)
        self.end_headers()
        usage = json.dumps({"choices": [{"text": "b"}], "usage": {"completion_tokens": body["max_tokens"]}})
        self.wfile.write(f'data: {{"choices": [{{"text": "a"}}]}}\n\ndata: {usage}\n\n'.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.prompts, running.works = [], True
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def colocation(server):
    counts = SimpleNamespace(idle_seconds=0.0, preemptions=0, backstops=0, cooldown=0.01)
    device = SimpleNamespace(counts=lambda: counts, closings=lambda _: [], requests=lambda _: [])
    url = f"http://127.0.0.1:{server.server_address[1]}"
    gate = SimpleNamespace(device=device, tokens=lambda: 0)
    flags = SimpleNamespace(mode=Mode.KERNEL)
    return SimpleNamespace(url=url, plain_url=url, managed=gate, free=gate, flags=flags, arrange=lambda tenant: None)


@pytest.mark.parametrize(("stood_still", "before"), [(True, [[9], [10]]), (False, [])])
def test_a_server_that_stood_still_answers_the_first_part_once_before(server, stood_still, before):
    block = Block(0, 0.0, ("alone", "plain"))
    found = measure(colocation(server), "alone", Arm(), block, REQUESTS, 0.1, stood_still=stood_still)
    # Each is sent on a connection of its own, so they may arrive in another order.
    assert sorted(server.prompts) == sorted([*before, [9], [10], [11]])
    assert (len(found.outcomes), found.errors) == (3, 0)


def test_a_warm_up_that_does_not_get_steady_says_so(server):
    server.works = False
    assert warm_up(colocation(server), Arm(), REQUESTS[:1], 0.01) == WarmUp(replays=4, steady=False)
    assert len(server.prompts) == 4
