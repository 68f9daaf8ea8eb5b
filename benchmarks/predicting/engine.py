"""An engine in this process, and traffic for it."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from predicting.measured import Measured
from predicting.profiler import Profiler

RIDES = (0, 0, 0, 0, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Tokens of a window, drawn for each step; about as many steps without one as a product has."""
SEATS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Requests in the engine at once, drawn for each stretch."""
STRETCH_STEPS = 60
PROMPTS = (16, 32, 64, 100, 200, 300, 500)
ANSWERS = (8, 160)
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


class Engine:
    """vLLM, and what its steps took."""

    def __init__(self, engine: Any, profiler: Profiler, source: random.Random) -> None:
        self._engine, self._profiler, self._source = engine, profiler, source
        self._requests = 0

    def steps(self, count: int) -> list[Measured]:
        """Runs so many steps of drawn traffic."""
        taken = self._profiler.steps
        taken.clear()
        while len(taken) < count:
            seats = self._source.choice(SEATS)
            for _ in range(STRETCH_STEPS):
                self._fill(seats)
                self._engine.step()
        return taken[:count]

    def _fill(self, seats: int) -> None:
        live = self._engine.get_num_unfinished_requests()
        if not live or (live < seats and self._source.random() < 0.25):
            self._add()

    def _add(self) -> None:
        from vllm import SamplingParams

        self._requests += 1
        tokens = [self._source.randrange(5, 250) for _ in range(self._source.choice(PROMPTS))]
        parameters = SamplingParams(temperature=0, max_tokens=self._source.randint(*ANSWERS), ignore_eos=True)
        self._engine.add_request(f"r{self._requests}", {"prompt_token_ids": tokens}, parameters)


@contextmanager
def engine(folder: Path, seed: int) -> Iterator[Engine]:
    """An engine that serves the model, in which windows ride."""
    os.environ |= _ENVIRONMENT
    import torch
    from vllm import EngineArgs, LLMEngine
    from vllm.v1.worker import cpu_worker

    from rowen.runtime.vllm.riding.worker import riding

    torch.set_num_threads(1)
    source = random.Random(seed)
    made: list[Profiler] = []

    def board(_config: Any, model: Any) -> Any:
        made.append(Profiler(folder, model, RIDES, source))
        return made[0]

    own = cpu_worker.CPUWorker
    cpu_worker.CPUWorker = riding(own, board)
    try:
        running = LLMEngine.from_engine_args(
            EngineArgs(
                model=str(folder),
                dtype="float32",
                enforce_eager=True,
                max_model_len=1024,
                max_num_seqs=max(SEATS),
                max_num_batched_tokens=256,
                kv_cache_memory_bytes=128 * 2**20,
                enable_prefix_caching=False,
                distributed_executor_backend="vllm.v1.executor.uniproc_executor.UniProcExecutor",
                disable_log_stats=True,
                seed=seed,
            )
        )
        yield Engine(running, made[0], source)
        running.engine_core.shutdown()
    finally:
        cpu_worker.CPUWorker = own
