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
from vllm import EngineArgs, LLMEngine, RequestOutput, SamplingParams, TokensPrompt
from vllm.lora.request import LoRARequest

from rowen.runtime.coserve.seat.host import Host
from rowen.runtime.coserve.task import Result, Task
from rowen.runtime.vllm.plugin import register
from rowen.runtime.vllm.riding import boarding
from rowen.runtime.vllm.riding.conductor import Conductor

UNIPROC = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
STEPS = 5_000
"""An engine that has not finished by then never does."""
COMMON_TOKENS = 3 * 128
"""With which prompts begin alike: three blocks, as large as vLLM makes them on a CPU."""

Answer = list[tuple[int, float]]
"""Tokens, with their log probabilities."""


class Bench:
    """An engine with guests of whom it does not know that they are none."""

    def __init__(self, model: Path, adapter: Path, agent: str | None = None) -> None:
        """`agent`: path of its ride socket for engines, through which guests come in place of the test's."""
        self.guests = Guests()
        self.host: Host | None = None
        if agent is None:
            boarding.Seat = self._seat  # type: ignore[assignment,misc]
        else:
            os.environ["ROWEN_ENGINE_RIDE_SOCKET"] = agent
        register()
        self.adapter = LoRARequest("served", 1, str(adapter))
        self.engine = LLMEngine.from_engine_args(
            EngineArgs(
                model=str(model),
                dtype="float32",
                enforce_eager=True,
                enable_lora=True,
                max_lora_rank=8,
                max_model_len=512,
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
        found = self._ended()
        return [_answer(found[f"request-{number}"]) for number in range(count)]

    def add(self, number: int, tokens: int) -> None:
        # Prompts take several steps: over requests with a seed vLLM's own worker ends there (`SeededWorker`).
        seed = number if number % 4 == 3 else None
        self._ask(number, prompt(number // 2, 9 + 17 * number), tokens, seed=seed, adapted=number % 4 == 2)

    def alike(self) -> list[tuple[Answer, int]]:
        """Of requests whose prompts begin alike, and how many tokens of each the cache had.

        Without the served adapter and with it one fills the cache for those who come next.
        """
        self.engine.reset_prefix_cache()
        found: dict[str, RequestOutput] = {}
        for numbers in (range(2), range(2, 6)):
            for number in numbers:
                begin, end = prompt(9, COMMON_TOKENS), prompt(number, 12 + 7 * number)
                self._ask(number, begin + end, 16, seed=None, adapted=number % 2 == 1)
            found |= self._ended()
        outputs = [found[f"request-{number}"] for number in range(6)]
        return [(_answer(output), output.num_cached_tokens) for output in outputs]

    def _ask(self, number: int, tokens: list[int], most_tokens: int, *, seed: int | None, adapted: bool) -> None:
        self.engine.add_request(
            f"request-{number}",
            TokensPrompt(prompt_token_ids=tokens),
            SamplingParams(
                max_tokens=most_tokens, temperature=0.0 if seed is None else 1.0, seed=seed, ignore_eos=True, logprobs=0
            ),
            lora_request=self.adapter if adapted else None,
        )

    def _ended(self) -> dict[str, RequestOutput]:
        """Of all requests that are there, once they have ended, by name."""
        found: dict[str, RequestOutput] = {}
        for _ in range(STEPS):
            found |= {output.request_id: output for output in self.engine.step() if output.finished}
            if not self.engine.has_unfinished_requests():
                break
        return found

    def results(self, tasks: Sequence[Task]) -> list[Result]:
        """Of tasks, each of a guest of its own, that are worked through beside requests."""
        return self.results_of([self.guests.arrive(task) for task in tasks])

    def results_of(self, guests: Sequence[int]) -> list[Result]:
        """Of guests that are there, whose tasks are worked through beside requests."""
        for round_number in range(20):
            if all(guest in self.guests.answers for guest in guests):
                break
            self.add(round_number, 40)
            self._ended()
        found = [self.guests.answers.pop(guest) for guest in guests]
        assert all(isinstance(answer, Result) for answer in found), found
        return [answer for answer in found if isinstance(answer, Result)]


def _answer(output: RequestOutput) -> Answer:
    completion = output.outputs[0]
    pairs = zip(completion.token_ids, completion.logprobs or (), strict=True)
    return [(token, each[token].logprob) for token, each in pairs]


def prompt(seed: int, length: int) -> list[int]:
    return [(seed * 131 + position * (7 + seed % 5)) % 400 + 5 for position in range(length)]
