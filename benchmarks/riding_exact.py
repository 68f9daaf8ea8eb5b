"""Whether an engine answers the same, to the bit, while fine-tuning rides in its steps.

A real vLLM in this process (4 layers of 256, float32, eager, prompts in chunks, each two requests of one beginning,
prefix caching without what earlier requests left, every fourth request on a served adapter, all of them greedy) answers
the same requests twice: alone, and while three jobs' micro batches ride, whose parts run between its steps, and four
rows of a batch. Figures:

    requests                      answered in each of both runs
    cached_tokens                 of their prompts that the prefix cache had, with riders; `cached_tokens_alone`
    other_tokens                  requests whose tokens differ
    other_log_probabilities       requests of which a token's log probability differs in any bit
    riding_steps_fraction         steps of the second run in which a window of a micro batch was to ride
    forward_tokens, tasks         of riders: tokens in steps, micro batches whose gradients were delivered
    row_tokens                    of the batch, read and written
    other_kernel_rows             of products of all sizes that the engine's packed kernels made of some rows, float32
                                  and bfloat16, those that came out otherwise with more rows behind them
"""

import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporting.bars import Bars
from reporting.command import run_command
from reporting.report import Figures, report

from rowen.demo import samples
from rowen.runtime.vllm.rows.marker import ROW_PREFIX

if TYPE_CHECKING:
    from rowen.runtime.coserve.training.architecture import Architecture

BARS: Bars = {
    "other_tokens": (0, "at most"),
    "other_log_probabilities": (0, "at most"),
    "other_kernel_rows": (0, "at most"),
    "cached_tokens": (1, "at least"),
    "forward_tokens": (1, "at least"),
    "row_tokens": (1, "at least"),
}
SHAPE = samples.Shape(layers=4, hidden=256, intermediate=512, heads=4, key_value_heads=2)
JOBS = 3
ROWS = 4
"""In the engine at once."""
FIRST_TOKEN = 5
"""Of those that are no control tokens."""
_FIRST_ROW = 100_000
"""Its number."""
TERMS = (
    '{"ttft": {"percentile": 99, "seconds": 4}, "tpot": {"percentile": 99, "seconds": 0.4}, "memoryBytes": 1000000000}'
)
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "ROWEN_ENGINE_SOCKET": "/nonexistent",
    "ROWEN_ENGINE_RIDE_SOCKET": "/nonexistent",
    "ROWEN_LIBRARY": "/nonexistent",
    "ROWEN_RIDE_TERMS": TERMS,
}
Answer = list[tuple[int, float]]
"""Tokens, with their log probabilities."""


class Jobs:
    """In place of the engine's seat: jobs that have a new task for each answer, while they ride."""

    def __init__(self) -> None:
        self.riding = False
        self.answered = 0
        self.sums: Any = None
        self.ended: str | None = None
        self.worked_seconds = 0.0
        self.new_task: Callable[[int], Any] | None = None
        self._free = set(range(JOBS))
        self._numbers = count()

    def take(self) -> list[Any]:
        """A task of each job that has none in the engine."""
        from rowen.runtime.coserve.seat.seat import Arrival

        if not self.riding or self.new_task is None:
            return []
        free, self._free = self._free, set()
        return [Arrival(guest, self.new_task(next(self._numbers))) for guest in free]

    def deliver(self, guest: int, answer: Any) -> None:
        """The job's next one may come."""
        if isinstance(answer, Exception):
            raise answer
        self._free.add(guest)
        self.answered += 1

    def tell(self, sums: Any, ended: str | None) -> None:
        """Kept."""
        self.sums, self.ended = sums, ended

    def close(self) -> None:
        """Nothing is open."""


class Engine:
    """vLLM with Rowen's plugin, and jobs."""

    def __init__(self, folder: Path, seed: int) -> None:
        os.environ |= _ENVIRONMENT
        import torch
        from vllm import EngineArgs, LLMEngine
        from vllm.lora.request import LoRARequest

        from rowen.runtime.coserve.training.architecture import read_architecture
        from rowen.runtime.vllm.plugin import register
        from rowen.runtime.vllm.riding import boarding

        torch.set_num_threads(1)
        model, adapter = folder / samples.MODEL, folder / "adapter"
        samples.write_model(model, SHAPE)
        _write_adapter(adapter, seed)
        self.jobs = Jobs()
        self.steps = self.windows = 0
        self._count_windows()
        boarding.Seat = lambda *_: self.jobs  # type: ignore[assignment,misc]
        register()
        self._adapter = LoRARequest("served", 1, str(adapter))
        self._engine = LLMEngine.from_engine_args(
            EngineArgs(
                model=str(model), dtype="float32", enforce_eager=True, enable_lora=True, max_lora_rank=8,
                max_model_len=512, max_num_seqs=12, max_num_batched_tokens=96, enable_prefix_caching=True,
                block_size=32, kv_cache_memory_bytes=64 * 2**20, disable_log_stats=True, seed=seed,
                distributed_executor_backend="vllm.v1.executor.uniproc_executor.UniProcExecutor",
            )
        )  # fmt: skip
        architecture = read_architecture(model)
        self._words = architecture.vocabulary - FIRST_TOKEN
        self.jobs.new_task = lambda number: _task(architecture, number)

    def _count_windows(self) -> None:
        from rowen.runtime.vllm.riding.hooks import Hooks

        arm = Hooks.arm

        def counted(hooks: Hooks, window: Any) -> None:
            self.windows += 1
            arm(hooks, window)

        Hooks.arm = counted  # type: ignore[method-assign]

    def answers(self, requests: int, rows: int = 0) -> tuple[dict[str, Answer], int]:
        """Of so many requests, 1 to 12 in the engine at once, beside so many rows; and their prompts' cached tokens."""
        self._engine.reset_prefix_cache()
        self.steps = self.windows = 0
        found: dict[str, Answer] = {}
        under_way: set[str] = set()
        sent = cached = sent_rows = 0
        while len(found) < requests:
            while sent < requests and sent - len(found) < 1 + sent // 7 % 12:
                self._send(str(sent), sent, self._adapter if sent % 4 == 2 else None)
                sent += 1
            while len(under_way) < rows:
                under_way.add(f"{ROW_PREFIX}{sent_rows}")
                self._send(f"{ROW_PREFIX}{sent_rows}", _FIRST_ROW + sent_rows, None)
                sent_rows += 1
            self.steps += 1
            for output in self._engine.step():
                if not output.finished:
                    continue
                if output.request_id in under_way:
                    under_way.remove(output.request_id)
                    continue
                completion = output.outputs[0]
                pairs = zip(completion.token_ids, completion.logprobs or (), strict=True)
                found[output.request_id] = [(token, each[token].logprob) for token, each in pairs]
                cached += output.num_cached_tokens or 0
        self._engine.abort_request(list(under_way))
        return found, cached

    def _send(self, name: str, number: int, adapter: Any) -> None:
        from vllm import SamplingParams

        parameters = SamplingParams(max_tokens=4 + number * 7 % 40, temperature=0.0, ignore_eos=True, logprobs=0)
        # Pairs begin alike.
        tokens = [
            (number // 2 * 131 + position * 7) % self._words + FIRST_TOKEN for position in range(5 + number * 11 % 190)
        ]
        self._engine.add_request(name, {"prompt_token_ids": tokens}, parameters, lora_request=adapter)


def _write_adapter(folder: Path, seed: int) -> None:
    import json

    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 16, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps({**config, "target_modules": ["q_proj", "o_proj"]}))
    draw, width = torch.Generator().manual_seed(seed), SHAPE.hidden
    save_file(
        {
            f"base_model.model.model.layers.{layer}.self_attn.{name}.lora_{letter}.weight": torch.randn(
                *shape, generator=draw
            )
            * 0.05
            for layer in range(SHAPE.layers)
            for name in ("q_proj", "o_proj")
            for letter, shape in (("A", (4, width)), ("B", (width, 4)))
        },
        folder / "adapter_model.safetensors",
    )


def _task(architecture: "Architecture", number: int) -> Any:
    import torch

    from rowen.runtime.coserve.task import Adapter, Pair, Sequence, Target, Task

    draw = torch.Generator().manual_seed(number)
    pairs = {
        (layer, target): Pair(
            torch.randn(8, architecture.widths(target)[0], generator=draw) * 0.01,
            torch.randn(architecture.widths(target)[1], 8, generator=draw) * 0.01,
        )
        for layer in range(architecture.layers)
        for target in Target
    }
    lengths = (40 + 60 * (number % 3), 90)
    rows = [torch.randint(FIRST_TOKEN, architecture.vocabulary, (length,), generator=draw) for length in lengths]
    return Task(number, Adapter(2.0, pairs), tuple(Sequence(tokens, tokens) for tokens in rows), 1.0, gradients=True)


def other_kernel_rows() -> tuple[int, int]:
    """Of packed products of some rows: those that more rows behind them changed, and all of them."""
    import torch
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    other = tried = 0
    draw = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        for outputs, inputs in (
            (1536, 1024),
            (1024, 1024),
            (4096, 1024),
            (1024, 2048),
            (512, 256),
            (256, 512),
            (64, 64),
        ):
            layer = torch.nn.Module()
            weight = torch.randn(outputs, inputs, generator=draw).to(dtype)
            layer.weight = torch.nn.Parameter(weight, requires_grad=False)
            dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
            product: Any = layer.cpu_linear
            for own in (1, 2, 3, 4, 7, 8, 15, 16, 17, 33, 64):
                rows = torch.randn(own, inputs, generator=draw).to(dtype)
                alone = product(rows, layer.weight, None)
                for riding in (1, 2, 3, 5, 8, 16, 31, 64, 128):
                    more = torch.randn(riding, inputs, generator=draw).to(dtype)
                    tried += 1
                    other += not torch.equal(product(torch.cat((rows, more)), layer.weight, None)[:own], alone)
    return other, tried


def run(requests: int, seed: int) -> dict[str, Any]:
    """The whole benchmark."""
    with tempfile.TemporaryDirectory(prefix="rowen-exact-") as folder, redirect_stdout(sys.stderr):
        engine = Engine(Path(folder), seed)
        alone, cached_alone = engine.answers(requests)
        engine.jobs.riding = True
        ridden, cached = engine.answers(requests, ROWS)
        sums, ended = engine.jobs.sums, engine.jobs.ended
        other, tried = other_kernel_rows()
    if ended is not None:
        raise RuntimeError(ended)
    tokens = {name: [token for token, _ in answer] for name, answer in alone.items()}
    figures: Figures = {
        "requests": (requests, "1"),
        "other_tokens": (sum([token for token, _ in ridden[name]] != tokens[name] for name in alone), "requests"),
        "other_log_probabilities": (sum(ridden[name] != alone[name] for name in alone), "requests"),
        "tokens": (sum(map(len, alone.values())), "tokens"),
        "cached_tokens": (cached, "tokens"),
        "cached_tokens_alone": (cached_alone, "tokens"),
        "other_kernel_rows": (other, "products"),
        "kernel_rows_tried": (tried, "products"),
        "riding_steps_fraction": (engine.windows / engine.steps, "fraction"),
        "forward_tokens": (sums.forward_tokens, "tokens"),
        "tasks": (engine.jobs.answered, "micro batches"),
        "row_tokens": (sums.row_tokens, "tokens"),
    }
    return report("riding_exact", seed, figures, {}, ("rowen", "torch", "vllm"), BARS)


def main() -> None:
    """Command line."""
    run_command(__doc__, "60 requests instead of 1,000", lambda quick, seed: run(60 if quick else 1000, seed))


if __name__ == "__main__":
    main()
