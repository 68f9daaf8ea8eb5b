"""A batch server that answers from a script."""

import asyncio
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from rowen.runtime.batch.serving.length import Length
from rowen.runtime.batch.serving.server import Answer, Server


class ScriptedServer(Server):
    """Answers each request after some turns of the loop, the later ones sooner."""

    def __init__(self, refused: frozenset[int] = frozenset(), at_each: Callable[[int], object] = lambda asked: None):
        """`refused`: lines that are the user's mistake. `at_each`: called with how many were asked so far."""
        self.routes, self.sequences = ("/v1/completions",), 8
        self.length = Length(model=100, fitting=100)
        self.seen: dict[int, dict[str, Any]] = {}
        """Bodies by input line."""
        self.most_at_once = 0
        self._refused, self._at_each, self._running = refused, at_each, 0

    @override
    async def ask(self, route: str, body: dict[str, Any], request_id: str) -> Answer:
        line = int(request_id.removeprefix("batch_req_"))
        self.seen[line] = body
        self._running += 1
        self.most_at_once = max(self.most_at_once, self._running)
        for _ in range(10 - line % 10):
            await asyncio.sleep(0)
        self._at_each(len(self.seen))
        self._running -= 1
        if line in self._refused:
            return Answer(400, {"error": {"message": "too long", "type": "BadRequestError", "code": 400}})
        return Answer(200, {"model": body["model"], "choices": [{"text": "text", "finish_reason": "stop"}]})
