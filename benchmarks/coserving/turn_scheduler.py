"""The scheduler of an engine that takes turns with a tuner (`--scheduler-cls`)."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coserving.chunks import Answering, Chunks, affordable, may_go_on
from coserving.interval import DynamicInterval
from coserving.turns import TURNS_ENV, Mode, Turns
from typing_extensions import override
from vllm.v1.core.sched.async_scheduler import AsyncScheduler


class TurnScheduler(AsyncScheduler):  # type: ignore[misc]
    """vLLM's own, unless turns are on."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._turns = {Turns(Path(path)): Chunks() for path in os.environ[TURNS_ENV].split(os.pathsep)}
        self._steps = self._arrived = self._completed = 0
        self._dynamic = DynamicInterval()
        self._first: dict[str, float] = {}
        """When each request had its first token."""
        self._begun = self._step_seconds = 0.0

    @override
    def add_request(self, request: Any) -> None:
        self._arrived += 1
        super().add_request(request)

    @override
    def schedule(self, *arguments: Any, **named: Any) -> Any:
        if self.has_unfinished_requests():
            for turns, chunks in self._turns.items():
                if turns.mode is Mode.TURNS:
                    turns.take()
                    self._grant(turns, chunks)
        self._begun = time.monotonic()
        return super().schedule(*arguments, **named)

    def _grant(self, turns: Turns, chunks: Chunks) -> None:
        bound = turns.bound
        if bound is None:
            if self._due(turns.every):
                turns.grant()
            return
        first = now = time.monotonic()
        while affordable(self._answering(now), chunks.expected(now), self._step_seconds, bound):
            turns.grant()
            if turns.mode is not Mode.TURNS:
                return
            begun, now = now, time.monotonic()
            chunks.observe(begun, now)
            if not may_go_on(now - first, chunks.expected(now), turns.ttft_bound):
                return

    def _due(self, every: int) -> bool:
        if every:
            self._steps += 1
            return self._steps % every == 0
        arrived, completed = self._arrived, self._completed
        self._arrived = self._completed = 0
        return self._dynamic.step(len(self.waiting), arrived, completed)

    def _answering(self, now: float) -> Iterator[Answering]:
        for name, request in self.requests.items():
            yield Answering(now - self._first.get(name, now), request.num_output_tokens)

    @override
    def update_from_output(self, *arguments: Any, **named: Any) -> Any:
        before = len(self.requests)
        outputs = super().update_from_output(*arguments, **named)
        self._completed += max(0, before - len(self.requests))
        now = time.monotonic()
        self._step_seconds = now - self._begun
        answering = [name for name, request in self.requests.items() if request.num_output_tokens]
        self._first = {name: self._first.get(name, now) for name in answering}
        if not self.has_unfinished_requests():
            for turns in self._turns:
                turns.busy = False
        return outputs
