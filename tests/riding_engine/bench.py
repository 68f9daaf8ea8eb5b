"""A real vLLM in this process that takes riders in; the guests are the test's."""

import os

os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "ROWEN_ENGINE_SOCKET": "/nonexistent",
    "ROWEN_ENGINE_RIDE_SOCKET": "/nonexistent",
    "ROWEN_LIBRARY": "/nonexistent",
    # No bound is ever missed: as much rides as can.
    "ROWEN_RIDE_TERMS": '{"ttft": {"percentile": 99, "seconds": 80}, "tpot": {"percentile": 99, "seconds": 80},'
    ' "memoryBytes": 100000000}',
}

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from riding_engine.guests import Guests
from vllm import EngineArgs, LLMEngine, SamplingParams, TokensPrompt
from vllm.lora.request import LoRARequest

from rowen.runtime.coserve.seat.host import Host
from rowen.runtime.coserve.task import Result, Task
from rowen.runtime.vllm.plugin import register
from rowen.runtime.vllm.riding import boarding
from rowen.runtime.vllm.riding.conductor import Conductor

UNIPROC = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
STEPS = 5_000
"""An engine that has not finished by then never does."""

Answer = list[tuple[int, float]]
"""Tokens, with their log probabilities."""


class Bench:
    """An engine with guests of whom it does not know that they are none."""

    def __init__(self, model: Path, adapter: Path) -> None:
        self.guests = Guests()
        self.host: Host | None = None
        boarding.Seat = self._seat  # type: ignore[assignment,misc]
        register()
        self.adapter = LoRARequest("served", 1, str(adapter))
        self.engine = LLMEngine.from_engine_args(
            EngineArgs(
                model=str(model),
                dtype="float32",
                enforce_eager=True,
                enable_lora=True,
                max_lora_rank=8,
                max_model_len=256,
                max_num_seqs=8,
                # Prompts take several steps.
                max_num_batched_tokens=48,
                enable_prefix_caching=True,
                kv_cache_memory_bytes=16 * 2**20,
                distributed_executor_backend=UNIPROC,
                disable_log_stats=True,
            )
        )

    def _seat(self, _: str, host: Host, __: Callable[[], None]) -> Guests:
        self.host = host
        return self.guests

    @property
    def core(self) -> Any:
        return self.engine.engine_core.engine_core  # type: ignore[attr-defined]

    @property
    def worker(self) -> Any:
        return self.core.model_executor.driver_worker.worker

    @property
    def conductor(self) -> Conductor:
        found: Conductor = self.worker.rowen_conductor
        return found

    def answers(self, count: int = 8, tokens: int = 24) -> list[Answer]:
        """Of so many requests at once, with and without the served adapter."""
        self.engine.reset_prefix_cache()
        for number in range(count):
            self.add(number, tokens + 3 * number)
        found: dict[str, Answer] = {}
        for _ in range(STEPS):
            for output in self.engine.step():
                if output.finished:
                    completion = output.outputs[0]
                    pairs = zip(completion.token_ids, completion.logprobs or (), strict=True)
                    found[output.request_id] = [(token, each[token].logprob) for token, each in pairs]
            if not self.engine.has_unfinished_requests():
                break
        return [found[f"request-{number}"] for number in range(count)]

    def add(self, number: int, tokens: int) -> None:
        # Prompts take several steps: over requests with a seed vLLM's own worker ends there (`SeededWorker`).
        seed = number if number % 4 == 3 else None
        self.engine.add_request(
            f"request-{number}",
            TokensPrompt(prompt_token_ids=prompt(number // 2, 9 + 17 * number)),
            SamplingParams(
                max_tokens=tokens, temperature=0.0 if seed is None else 1.0, seed=seed, ignore_eos=True, logprobs=0
            ),
            lora_request=self.adapter if number % 4 == 2 else None,
        )

    def results(self, tasks: Sequence[Task]) -> list[Result]:
        """Of tasks, each of a guest of its own, that are worked through beside requests."""
        guests = [self.guests.arrive(task) for task in tasks]
        for round_number in range(20):
            if all(guest in self.guests.answers for guest in guests):
                break
            self.add(round_number, 40)
            for _ in range(STEPS):
                self.engine.step()
                if not self.engine.has_unfinished_requests():
                    break
        found = [self.guests.answers.pop(guest) for guest in guests]
        assert all(isinstance(answer, Result) for answer in found), found
        return [answer for answer in found if isinstance(answer, Result)]


def prompt(seed: int, length: int) -> list[int]:
    return [(seed * 131 + position * (7 + seed % 5)) % 400 + 5 for position in range(length)]
