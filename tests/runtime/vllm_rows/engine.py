"""A real vLLM in this process with rows that ride, which writes down what its steps hold."""

from typing import Any

from elastic.bench import Bench, Row
from elastic.hostile_arena import HostileArena
from runtime.recorder import Recorder
from typing_extensions import override
from vllm import SamplingParams, TokensPrompt
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from rowen.runtime.coserve import lease
from rowen.runtime.coserve.load import Load
from rowen.runtime.vllm.elastic.scheduler import ElasticScheduler
from rowen.runtime.vllm.rows.marker import ROW_PREFIX, is_row
from rowen.runtime.vllm.rows.pace import Pace
from rowen.runtime.vllm.rows.scheduler import riding_rows

MODES = ("synchronous", "asynchronous", "elastic")
BLOCKS = 64
Step = dict[str, int]
"""Tokens of each request in it."""


class Given(Pace):
    """So many tokens in each step, beside online requests and without."""

    def __init__(self) -> None:
        self.beside = self.alone = 128
        self.loads: list[Load] = []
        self.fails = False

    @override
    def tokens(self, load: Load) -> int:
        if self.fails:
            raise RuntimeError("no idea")
        self.loads.append(load)
        return self.beside if load.decode_rows or load.prefill_tokens else self.alone


class RowEngine:
    """Requests are known by names; those of rows are marked."""

    def __init__(self, model: str, mode: str | None) -> None:
        """`mode`: of `MODES`; None: an engine that knows no rows."""
        self.pace = Given()
        self.device = Recorder()
        lease.online = lambda: self.device  # type: ignore[assignment]
        self.arena = HostileArena(BLOCKS // 2, 2**15) if mode == "elastic" else None
        plain = {"elastic": ElasticScheduler, "asynchronous": AsyncScheduler}.get(mode or "", Scheduler)
        scheduler = riding_rows(plain, self.pace) if mode else plain
        settings: dict[str, Any] = {"block_size": 32}
        if self.arena is None:
            settings |= {"scheduler_cls": scheduler, "num_gpu_blocks_override": BLOCKS}
        self.bench = Bench(model, self.arena, mode not in (None, "synchronous"), scheduler, **settings)
        self.scheduler = self.bench.scheduler
        self.steps: list[Step] = []
        self._count = 0
        schedule = self.scheduler.schedule

        def noted(*args: Any, **kwargs: Any) -> Any:
            output = schedule(*args, **kwargs)
            # vLLM puts something random behind the name.
            self.steps.append({name.rpartition("-")[0]: n for name, n in output.num_scheduled_tokens.items()})
            return output

        self.scheduler.schedule = noted

    def submit(self, row: Row, riding: bool = False, **wanted: Any) -> str:
        """`wanted`: more of its sampling parameters."""
        self._count += 1
        name = f"{ROW_PREFIX if riding else 'online-'}{self._count}"
        parameters = SamplingParams(temperature=0, max_tokens=row.tokens, ignore_eos=True, **wanted)
        self.bench.engine.add_request(name, TokensPrompt(prompt_token_ids=list(row.prompt)), parameters)
        return name

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.bench.turn()

    def finish(self) -> None:
        self.bench.finish()

    def request(self, name: str) -> Any:
        """As vLLM has it, until it has ended."""
        return next(each for each in self.scheduler.requests.values() if each.request_id.startswith(f"{name}-"))

    def answer(self, name: str) -> tuple[int, ...]:
        return self.bench.answers[name]

    def online(self) -> list[Step]:
        """What of each step was online, from the first to the last that had any."""
        steps = [{name: tokens for name, tokens in step.items() if not is_row(name)} for step in self.steps]
        while steps and not steps[0]:
            steps.pop(0)
        while steps and not steps[-1]:
            steps.pop()
        return steps

    def forget(self) -> None:
        """Begins anew."""
        assert not self.scheduler.requests
        assert self.scheduler.get_kv_cache_usage() == 0
        self.scheduler.reset_prefix_cache()
        self.steps.clear()
        self.pace.__init__()  # type: ignore[misc]
        self.device.lease = True
