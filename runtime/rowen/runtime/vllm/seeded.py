"""`SeededWorker`: vLLM's CPU worker that survives requests with a seed (`--worker-cls`).

vLLM 0.32.0 samples for every request of a step, also where the prompt is not through yet, and throws those samples
away. Then it sets the request's generator back by its offset, which only CUDA's generators have: on a CPU the engine
ends. Prompts that are longer than a step, or are computed again, bring that about.
"""

from typing import Any

import torch
from typing_extensions import override
from vllm.v1.worker.cpu_worker import CPUWorker

from rowen.runtime.log import get_logger

log = get_logger()


class SeededWorker(CPUWorker):  # type: ignore[misc]
    """What a sample that is thrown away drew from a request's generator is given back."""

    @override
    def init_device(self) -> None:
        super().init_device()
        runner = self.model_runner
        sample, book = getattr(runner, "_sample", None), getattr(runner, "_bookkeeping_sync", None)
        if sample is None or book is None:
            log.warning("requests with a seed are as vLLM has them: its model runner is another one than this knows")
            return

        def sampled(*args: Any, **kwargs: Any) -> Any:
            states = [(generator, generator.get_state()) for generator in _thrown_away(runner).values()]
            output = sample(*args, **kwargs)
            for generator, state in states:
                generator.set_state(state)
            return output

        def booked(*args: Any, **kwargs: Any) -> Any:
            batch = runner.input_batch
            generators, set_back = batch.generators, _thrown_away(runner)
            batch.generators = {row: one for row, one in generators.items() if row not in set_back}
            try:
                return book(*args, **kwargs)
            finally:
                batch.generators = generators

        runner._sample, runner._bookkeeping_sync = sampled, booked


def _thrown_away(runner: Any) -> dict[int, torch.Generator]:
    """Generators of the requests whose sample of this step does not count, by row."""
    rows = runner.discard_request_mask.np[: runner.input_batch.num_reqs].nonzero()[0]
    generators = runner.input_batch.generators
    return {int(row): generators[int(row)] for row in rows if int(row) in generators}
