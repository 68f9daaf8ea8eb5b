"""The scheduler of an engine that takes turns with a tuner (`--scheduler-cls`)."""

import os
from pathlib import Path
from typing import Any

from coserving.interval import DynamicInterval
from coserving.turns import TURNS_ENV, Mode, Turns
from typing_extensions import override
from vllm.v1.core.sched.async_scheduler import AsyncScheduler


class TurnScheduler(AsyncScheduler):  # type: ignore[misc]
    """vLLM's own, unless turns are on."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._turns = [Turns(Path(path)) for path in os.environ[TURNS_ENV].split(os.pathsep)]
        self._steps = self._arrived = self._completed = 0
        self._dynamic = DynamicInterval()

    @override
    def add_request(self, request: Any) -> None:
        self._arrived += 1
        super().add_request(request)

    @override
    def schedule(self, *arguments: Any, **named: Any) -> Any:
        if self.has_unfinished_requests():
            for turns in self._turns:
                if turns.mode is Mode.TURNS:
                    turns.take()
                    if self._due(turns.every):
                        turns.grant()
        return super().schedule(*arguments, **named)

    def _due(self, every: int) -> bool:
        if every:
            self._steps += 1
            return self._steps % every == 0
        arrived, completed = self._arrived, self._completed
        self._arrived = self._completed = 0
        return self._dynamic.step(len(self.waiting), arrived, completed)

    @override
    def update_from_output(self, *arguments: Any, **named: Any) -> Any:
        before = len(self.requests)
        outputs = super().update_from_output(*arguments, **named)
        self._completed += max(0, before - len(self.requests))
        if not self.has_unfinished_requests():
            for turns in self._turns:
                turns.busy = False
        return outputs
