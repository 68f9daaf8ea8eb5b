"""A batch worker that never runs out of rows: the product's engine for batch jobs, on its part of the device's pool.

python -m harvest.worker MODEL TALLY BLOCK_TOKENS

A kill is played: the worker gives up all requests, and does nothing for as long as it is told that a start takes. Its
clock runs as fast as the requests' then, which a real start's would not.
"""

import sys
import time
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import vllm
from harvest.tally import Counts, Tally

from rowen.demo.samples import requests as sample_rows
from rowen.runtime.batch import precision
from rowen.runtime.batch.engine import VllmEngine
from rowen.runtime.batch.memory import MAX_SEQUENCES, OVERHEAD_BYTES
from rowen.runtime.batch.requests import CompletionBody, CompletionRow, Request
from rowen.runtime.batch.weights import weights_bytes
from rowen.runtime.device_memory import worker_part
from rowen.runtime.vllm.elastic.scheduler import ElasticScheduler

_ANSWER_TOKENS = range(96, 257)
"""A request is small beside the pool, some 4 of 64 handles, and all together want more than it has: memory is what
limits the worker, a few handles at a time."""
_ROWS = 512
_PERIOD_SECONDS = 0.005


class Losses:
    """Counts what requests have computed when they are sent back to waiting, or given up."""

    def __init__(self) -> None:
        self.tokens = 0
        original = ElasticScheduler._preempt_request

        def preempt(scheduler: ElasticScheduler, request: Any, *arguments: Any, **named: Any) -> None:
            self.tokens += request.num_computed_tokens
            original(scheduler, request, *arguments, **named)

        ElasticScheduler._preempt_request = preempt


def rows() -> list[CompletionRow]:
    """Prompts of the demo, all as completions, with answers of different lengths."""
    found = []
    for number, sample in enumerate(sample_rows(_ROWS)):
        body = sample["body"]
        prompt = body.get("prompt") or body["messages"][0]["content"]
        tokens = _ANSWER_TOKENS[number * 97 % len(_ANSWER_TOKENS)]
        completion = CompletionBody(prompt=prompt, max_tokens=tokens, seed=body["seed"])
        found.append(
            CompletionRow(custom_id=sample["custom_id"], method="POST", url="/v1/completions", body=completion)
        )
    return found


class Worker:
    """Keeps as many requests in the engine as it takes."""

    def __init__(self, engine: VllmEngine, losses: Losses, known: Sequence[CompletionRow]) -> None:
        self._engine, self._losses, self._rows = engine, losses, known
        self._numbers = count(1)
        self._running: set[int] = set()
        self._tokens = 0

    def counts(self) -> Counts:
        """Of what was done so far."""
        return Counts(self._tokens, self._losses.tokens, ready=True)

    def step(self) -> None:
        """Works on for a moment."""
        while len(self._running) < MAX_SEQUENCES:
            number = next(self._numbers)
            self._engine.add(Request(number, str(number), self._rows[number % len(self._rows)], None))
            self._running.add(number)
        result = self._engine.step()
        self._running -= result.answers.keys()
        self._tokens += result.tokens

    def give_up(self) -> None:
        """All that is in memory is lost. What it has brought stays counted: rather too much than too little."""
        begun = self._engine._tokens_of
        self._losses.tokens += sum(begun.values())
        self._engine._engine.abort_request([str(number) for number in self._running])
        begun.clear()
        self._running.clear()


def main() -> None:
    """Runs until it is killed."""
    model, tally = Path(sys.argv[1]), Tally(Path(sys.argv[2]))
    weights = weights_bytes(model, precision.FLOAT32)
    part = worker_part()
    if part is None:
        raise RuntimeError("the worker has no part of the device's pool")
    # As the server beside it: every CPU is fast in float32, and a block is a handle.
    precision.chosen = lambda _: precision.FLOAT32
    vllm.EngineArgs = partial(vllm.EngineArgs, block_size=int(sys.argv[3]))  # type: ignore[misc]
    losses = Losses()
    worker = Worker(VllmEngine(model, OVERHEAD_BYTES + weights, part), losses, rows())
    kills = 0
    while True:
        order = tally.told()
        if order.kills != kills:
            kills = order.kills
            worker.give_up()
        if time.monotonic() < order.down_until:
            time.sleep(_PERIOD_SECONDS)
        else:
            worker.step()
        tally.write(worker.counts())


if __name__ == "__main__":
    main()
