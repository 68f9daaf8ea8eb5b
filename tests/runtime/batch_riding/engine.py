"""A serving engine that answers from a script, over TCP."""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

from typing_extensions import override

from rowen.crds.names import ENGINE_POD_HEADER

LENGTH = 100
"""Most tokens of a sequence."""
ROUTES = ("/v1/completions", "/v1/messages", "/v1/responses", "/tokenize")


class Engine:
    """Echoes. `failures`: what requests get first, in turn: a status, or 0 for a connection that breaks."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Header of the request's name, and body."""
        self.failures: list[int] = []
        self.bad: dict[str, tuple[int, Any]] = {}
        """By prompt, what it always gets; bytes as they are, and as no JSON where they begin with a zero."""
        self.turns: dict[str, list[int]] = {}
        """By prompt, as `failures`."""
        self.found: dict[str, int] = {}
        """By path, what its pages get in place of 200; 0: nothing, until `heard` is set."""
        self.heard = threading.Event()
        self.pages: list[str] = []
        """Paths of the pages that it was asked for."""
        self.is_silent = False
        """No row is answered, and its connection stays open."""
        self.hung_up = threading.Semaphore(0)
        """How many clients have closed such a connection."""
        self.model = "chat"
        self.pod: str | None = None
        """The name that it says with its health."""
        self.finish, self.tokens = "stop", 10
        self._port = 0
        self.begin()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def begin(self) -> None:
        """Listens, after `end` at the same address."""
        self._server = _Listener(("127.0.0.1", self._port), type("Handler", (_Handler,), {"engine": self}))
        self._port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, name: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.asked.append((name, body))
        if self.failures:
            return self.failures.pop(0), {"error": {"message": "scripted"}}
        if turns := self.turns.get(body.get("prompt", "")):
            return turns.pop(0), {"error": {"message": "scripted"}}
        if body.get("prompt") in self.bad:
            return self.bad[body["prompt"]]
        choices = [{"text": body.get("prompt"), "finish_reason": self.finish}]
        usage = {"prompt_tokens": 4, "completion_tokens": self.tokens - 4, "total_tokens": self.tokens}
        return 200, {"model": body["model"], "choices": choices, "usage": usage}


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    @override
    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    engine: Engine

    def do_GET(self) -> None:
        cards = [
            {"id": "adapted", "parent": "chat", "max_model_len": None},
            {"id": self.engine.model, "parent": None, "max_model_len": LENGTH},
        ]
        found = {"/health": {}, "/v1/models": {"data": cards}}
        self.engine.pages.append(self.path)
        status = self.engine.found.get(self.path, 200 if self.path in found else 405 if self.path in ROUTES else 404)
        if not status:
            self.engine.heard.wait(30)
        named = {ENGINE_POD_HEADER: self.engine.pod} if self.engine.pod and self.path == "/health" else {}
        self._say(status or 200, found.get(self.path, {}), named)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.engine.is_silent:
            self._wait(body)
            return
        status, answer = self.engine.answer(self.path, self.headers["X-Request-Id"], body)
        if status:
            self._say(status, answer)

    def _wait(self, body: dict[str, Any]) -> None:
        self.engine.asked.append((self.headers["X-Request-Id"], body))
        self.connection.settimeout(60)
        if self.connection.recv(1) == b"":
            self.engine.hung_up.release()
        self.close_connection = True

    def _say(self, status: int, answer: Any, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if data.startswith(b"\0"):
            self.send_header("Content-Type", "application/octet-stream")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    @override
    def log_message(self, *_: object) -> None:
        pass
