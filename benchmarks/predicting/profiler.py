"""Watches the steps of a real vLLM in this process, and has windows of a real fine-tuning task ride in them."""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from predicting.measured import Measured

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.task import Adapter, Pair, Target, Task
from rowen.runtime.coserve.task import Sequence as Tokens
from rowen.runtime.coserve.training.architecture import read_architecture
from rowen.runtime.coserve.training.learner import MachineLearner
from rowen.runtime.vllm.riding.composition import load_of
from rowen.runtime.vllm.riding.hooks import Hooks

RANK = 16
SEQUENCE = 512
"""Tokens."""
_MEMORY_BYTES = 2**30
_TARGETS = (Target.QUERY, Target.VALUE)


class Profiler:
    """In place of the conductor: what rides is drawn, not planned."""

    def __init__(self, folder: Path, model: torch.nn.Module, sizes: Sequence[int], source: random.Random) -> None:
        """`sizes`: of which the tokens of a step's window are drawn."""
        self.steps: list[Measured] = []
        self._architecture = read_architecture(folder)
        self._hooks = Hooks(model, self._architecture.layers)
        self._learner = MachineLearner(folder, _MEMORY_BYTES)
        self._sizes, self._source = sizes, source
        self._window: Any = None
        self._load = Load()
        self._begun = self._begun_processor = 0.0
        self._tasks = 0

    def begin(self, output: Any) -> None:
        """A step begins."""
        self._load = load_of(output)
        tokens = self._source.choice(self._sizes)
        if tokens and output.total_num_scheduled_tokens:
            self._board(tokens)
        self._begun, self._begun_processor = time.monotonic(), time.thread_time()

    def finish(self) -> None:
        """It has ended."""
        ride = self._hooks.disarm()
        seconds, processor = time.monotonic() - self._begun, time.thread_time() - self._begun_processor
        load = self._load
        if ride is not None:
            if not ride.is_through:
                raise ride.error or RuntimeError("a window did not get through")
            ride.window.finish()
            load = replace(load, ride_tokens=ride.window.tokens, ride_context=ride.window.context)
        if load != Load():
            self.steps.append(Measured(load, seconds, processor))

    def fail(self) -> None:
        """It has not."""
        self._hooks.disarm()

    def close(self) -> None:
        """The engine ends."""

    def end(self, reason: str) -> None:
        """Nothing may ride any more."""

    def _board(self, tokens: int) -> None:
        window = self._learner.window(tokens)
        if window is None:
            # The way back is no part of a step: another task takes its place.
            self._learner.drop(0)
            self._learner.add(0, self._task())
            window = self._learner.window(tokens)
        if window is not None:
            self._hooks.arm(window)

    def _task(self) -> Task:
        self._tasks += 1
        draw = torch.Generator().manual_seed(self._tasks)
        pairs = {}
        for layer in range(self._architecture.layers):
            for target in _TARGETS:
                inputs, outputs = self._architecture.widths(target)
                a = torch.randn(RANK, inputs, generator=draw) * 0.01
                pairs[layer, target] = Pair(a, torch.randn(outputs, RANK, generator=draw) * 0.01)
        tokens = torch.randint(5, 250, (SEQUENCE,), generator=draw)
        return Task(self._tasks, Adapter(2.0, pairs), (Tokens(tokens, tokens),), 1.0, gradients=True)
