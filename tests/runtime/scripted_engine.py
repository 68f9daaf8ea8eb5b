"""A batch engine that answers from a script."""

from typing_extensions import override

from rowen.runtime.batch.engine import Engine, StepResult, UnanswerableError
from rowen.runtime.batch.requests import Request
from rowen.runtime.batch.results import Answer


class ScriptedEngine(Engine):
    """Answers one request a step, the youngest first."""

    def __init__(self, refused: frozenset[int] = frozenset()) -> None:
        self._refused = refused
        self._running: list[int] = []
        self.seen: list[int] = []
        self.most_at_once = 0

    @override
    def add(self, request: Request) -> None:
        if request.line in self._refused:
            raise UnanswerableError("too long")
        self.seen.append(request.line)
        self._running.append(request.line)
        self.most_at_once = max(self.most_at_once, len(self._running))

    @override
    def step(self) -> StepResult:
        return StepResult({self._running.pop(): Answer("text", "stop", 3, 2)}, 5)
