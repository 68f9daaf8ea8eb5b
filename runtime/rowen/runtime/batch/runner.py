"""The batch loop: rows in, result lines out."""

from collections import deque

import structlog

from rowen.runtime.batch.engine import Engine, UnanswerableError
from rowen.runtime.batch.memory import MAX_SEQUENCES
from rowen.runtime.batch.output import Output
from rowen.runtime.batch.requests import Request
from rowen.runtime.batch.results import Answer, answer_line, problem_line
from rowen.runtime.worker import Progress

log = structlog.get_logger()


def write_problems(requests: list[Request], output: Output) -> None:
    """Writes the results of the lines that are no rows."""
    lines = {
        request.line: problem_line(request, request.problem)
        for request in requests
        if request.problem is not None and request.line not in output.done
    }
    if lines:
        output.append(lines, failed=len(lines))


class BatchRunner:
    """Keeps the engine full and writes every answer as soon as it is complete."""

    def __init__(self, engine: Engine, output: Output, progress: Progress, model: str, created: int) -> None:
        self._engine = engine
        self._output = output
        self._progress = progress
        self._model = model
        self._created = created
        self._running: dict[int, Request] = {}

    def run(self, requests: list[Request]) -> None:
        """Answers what is not done yet. Raises `WorkerError`, `OSError`."""
        total = len(requests)
        self._progress.report(len(self._output.done), total)
        waiting = deque(request for request in requests if request.line not in self._output.done)
        while waiting or self._running:
            self._fill(waiting)
            result = self._engine.step()
            if result.answers:
                self._write(result.answers)
            self._progress.report(len(self._output.done), total, result.tokens)

    def _fill(self, waiting: deque[Request]) -> None:
        while waiting and len(self._running) < MAX_SEQUENCES:
            request = waiting.popleft()
            try:
                self._engine.add(request)
            except UnanswerableError as error:
                log.warning("a row cannot be answered", line=request.line, error=str(error))
                self._output.append({request.line: problem_line(request, f"line {request.line}: {error}")}, failed=1)
            else:
                self._running[request.line] = request

    def _write(self, answers: dict[int, Answer]) -> None:
        lines = {}
        for line, answer in answers.items():
            lines[line] = answer_line(self._running.pop(line), answer, self._model, self._created)
        self._output.append(lines)
