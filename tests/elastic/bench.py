"""A real vLLM in this process, on an arena, with a hook before each layer of each step."""

import os

os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from elastic.hostile_arena import HostileArena
from memory.open_ledger import OpenLedger
from vllm import EngineArgs, LLMEngine, SamplingParams, TokensPrompt

from rowen.runtime.memory.part import PoolPart
from rowen.runtime.vllm.elastic.attachment import attach, attachment

UNIPROC = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
WORKER = "rowen.runtime.vllm.elastic.worker.ElasticWorker"
OFFLINE = "rowen.runtime.vllm.elastic.scheduler.ElasticScheduler"
STEPS = 20_000
"""An engine that has not finished by then never does."""

Tokens = tuple[int, ...]
Hook = Callable[[int, int], None]
"""Called with the number of the step and of the layer."""


@dataclass(frozen=True)
class Row:
    """A request, known by its number: the same row has the same answer, whatever happens."""

    prompt: Tokens
    tokens: int


def prompt(seed: int, length: int) -> Tokens:
    return tuple((seed * 131 + position * (7 + seed % 5)) % 400 + 5 for position in range(length))


def rows(count: int = 10) -> list[Row]:
    """Prompts of which pairs begin alike, shorter and longer than a block and than a step."""
    return [Row(prompt(number // 2, 20 + 53 * number % 190), 15 + 17 * number % 50) for number in range(count)]


class Bench:
    """An engine on an arena, or on memory of its own."""

    def __init__(
        self,
        model: str,
        arena: HostileArena | None,
        asynchronous: bool = False,
        scheduler: str | type = OFFLINE,
        **more: Any,
    ) -> None:
        self.books = OpenLedger()
        if arena is not None:
            attach(PoolPart(arena, arena.capacity, self.books))
            more |= {"worker_cls": WORKER, "scheduler_cls": scheduler}
        else:
            more["kv_cache_memory_bytes"] = 2**23
        settings: dict[str, Any] = {"max_num_seqs": 6, "max_num_batched_tokens": 128, "max_model_len": 512}
        config = EngineArgs(
            model=model,
            dtype="float32",
            enforce_eager=True,
            disable_log_stats=True,
            distributed_executor_backend=UNIPROC,
            **settings | more,
        ).create_engine_config()
        # vLLM switches it off on a CPU, but knows it.
        config.scheduler_config.async_scheduling = asynchronous
        self.engine = LLMEngine.from_vllm_config(config, disable_log_stats=True)
        core: Any = self.engine.engine_core
        self.core: Any = core.engine_core
        self.scheduler: Any = self.core.scheduler
        worker = self.core.model_executor.driver_worker.worker
        self.layers: list[Any] = list(worker.model_runner.model.model.layers)
        self.hook: Hook | None = None
        self.step = 0
        self.names = 0
        self.rows: dict[str, Row] = {}
        self.answers: dict[str, Tokens] = {}
        self.preempted = 0
        for number, layer in enumerate(self.layers):
            layer.register_forward_pre_hook(lambda *_, number=number: self._before(number))
        if arena is not None:
            self.arena = arena
            self.geometry = attachment().geometry  # type: ignore[union-attr]

    def submit(self, row: Row) -> str:
        self.names += 1
        name = str(self.names)
        parameters = SamplingParams(temperature=0, max_tokens=row.tokens, ignore_eos=True)
        self.engine.add_request(name, TokensPrompt(prompt_token_ids=list(row.prompt)), parameters)
        self.rows[name] = row
        return name

    def turn(self) -> None:
        """One call of the engine; what is complete is in `answers` afterwards."""
        self.step += 1
        for output in self.engine.step():
            if output.finished:
                self.answers[output.request_id] = tuple(output.outputs[0].token_ids)
        self._check()

    def run(self, these: Sequence[Row]) -> list[Tokens]:
        """The answers to these rows, all submitted at once."""
        names = [self.submit(row) for row in these]
        self.finish()
        return [self.answers[name] for name in names]

    def finish(self) -> None:
        end = self.step + STEPS
        while self.engine.has_unfinished_requests():
            self.turn()
            assert self.step < end, "the engine makes no progress"
        # With asynchronous scheduling a step may still be under way.
        while self.scheduler.has_requests() or self.core.batch_queue:
            self.turn()

    def running(self) -> dict[str, list[int]]:
        """Blocks of the requests that run."""
        manager = self.scheduler.kv_cache_manager
        return {each.request_id: manager.get_block_ids(each.request_id)[0] for each in self.scheduler.running}

    def handles(self, blocks: Iterable[int]) -> set[int]:
        found: set[int] = self.geometry.handles_of_blocks(blocks)
        return found

    def used(self) -> list[int]:
        """Handles that requests use, those that were taken left out."""
        blocks = [block for table in self.running().values() for block in table]
        return sorted(self.handles(blocks) & self.arena.mapped)

    def _before(self, layer: int) -> None:
        if hasattr(self, "arena"):
            if layer == 0:
                self._taken = self.arena.taken
            if self.arena.taken == self._taken:
                blocks = [block for table in self.running().values() for block in table]
                assert self.handles(blocks) <= self.arena.mapped, "a step computes on blocks without memory"
            self.arena.spoil()
        if self.hook is not None:
            self.hook(self.step, layer)

    def _check(self) -> None:
        """What holds between any two steps."""
        if not hasattr(self, "arena"):
            return
        running = {name: self.handles(blocks) for name, blocks in self.running().items()}
        assert self.books.handles == running
        assert {name: self.books.tokens[name] for name in running}.keys() == self.books.tokens.keys()
        cache = self.scheduler._cache
        with cache.lock:
            free = self.scheduler.kv_cache_manager.block_pool.free_block_queue.get_all_free_blocks()
            if not cache._memory.has_losses:
                assert self.handles(block.block_id for block in free) <= self.arena.mapped, "a free block has no memory"
        # What the engine could not say while the keeper was calling, the keeper says next.
        with cache._memory._calls:
            cache._memory._speak()
        assert self.arena.used >= len(set().union(*running.values(), set()))
        assert self.arena.used <= self.arena.wanted <= self.arena.capacity
