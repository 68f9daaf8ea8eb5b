"""A batch worker that never runs out of rows: vLLM with the product's elastic cache, on its part of the device's pool.

python -m harvest.worker MODEL TALLY BLOCK_TOKENS

The engine is in this process, which the product's is not: so a kill can be played, and what is lost be counted. Of a
kill the worker gives up all requests, and does nothing for as long as it is told that a start takes. Its clock runs as
fast as the requests' then, which a real start's would not.
"""

import os
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

from harvest.tally import Counts, Tally

from rowen.demo.samples import requests as sample_rows
from rowen.runtime.device_memory import worker_part
from rowen.runtime.memory.part import PoolPart
from rowen.runtime.vllm.elastic.attachment import attach
from rowen.runtime.vllm.elastic.scheduler import ElasticScheduler

_SEQUENCES = 16
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


def rows() -> list[dict[str, Any]]:
    """Prompts of the demo, with answers of different lengths: `prompt`, `max_tokens`, `seed`."""
    found = []
    for number, sample in enumerate(sample_rows(_ROWS)):
        body = sample["body"]
        prompt = body.get("prompt") or body["messages"][0]["content"]
        tokens = _ANSWER_TOKENS[number * 97 % len(_ANSWER_TOKENS)]
        found.append({"prompt": prompt, "max_tokens": tokens, "seed": body["seed"]})
    return found


def engine_on(model: Path, part: PoolPart, block_tokens: int) -> Any:
    """An engine of vLLM with its cache in this part of the pool, set up as the product's batch worker does."""
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))),
    }
    attach(part)
    from vllm import EngineArgs, LLMEngine

    arguments = EngineArgs(
        model=str(model),
        # As the server beside it: every CPU is fast in it. And a block is a handle.
        dtype="float32",
        block_size=block_tokens,
        enforce_eager=True,
        max_num_seqs=_SEQUENCES,
        max_model_len=-1,
        kv_cache_memory_bytes=part.bytes,
        distributed_executor_backend="vllm.v1.executor.uniproc_executor.UniProcExecutor",
        scheduler_cls="rowen.runtime.vllm.elastic.scheduler.ElasticScheduler",
        worker_cls="rowen.runtime.vllm.elastic.worker.ElasticWorker",
        disable_log_stats=True,
    )
    return LLMEngine.from_engine_args(arguments)


class Worker:
    """Keeps as many requests in the engine as it takes."""

    def __init__(self, engine: Any, losses: Losses) -> None:
        self._engine, self._losses, self._rows = engine, losses, rows()
        self._numbers = count(1)
        self._begun: dict[str, int] = {}
        """Tokens that were worked through so far, of the requests in the engine."""
        self._tokens = 0

    def counts(self) -> Counts:
        """Of what was done so far."""
        return Counts(self._tokens, self._losses.tokens, ready=True)

    def step(self) -> None:
        """Works on for a moment."""
        while len(self._begun) < _SEQUENCES:
            self._add(next(self._numbers))
        for output in self._engine.step():
            so_far = len(output.prompt_token_ids) + len(output.outputs[0].token_ids)
            self._tokens += so_far - self._begun[output.request_id]
            self._begun[output.request_id] = so_far
            if output.finished:
                del self._begun[output.request_id]

    def give_up(self) -> None:
        """All that is in memory is lost. What it has brought stays counted: rather too much than too little."""
        self._losses.tokens += sum(self._begun.values())
        self._engine.abort_request(list(self._begun))
        self._begun.clear()

    def _add(self, number: int) -> None:
        from vllm import SamplingParams

        row = self._rows[number % len(self._rows)]
        parameters = SamplingParams(temperature=1.0, max_tokens=row["max_tokens"], seed=row["seed"])
        self._engine.add_request(str(number), row["prompt"], parameters)
        self._begun[str(number)] = 0


def main() -> None:
    """Runs until it is killed."""
    model, tally = Path(sys.argv[1]), Tally(Path(sys.argv[2]))
    part = worker_part()
    if part is None:
        raise RuntimeError("the worker has no part of the device's pool")
    losses = Losses()
    worker = Worker(engine_on(model, part, int(sys.argv[3])), losses)
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
