"""A batch job with its model: what vLLM is started with, and the rows that it answers."""

import os
from pathlib import Path

from rowen.crds.base import quantity_text
from rowen.crds.job.worker import BatchSpec
from rowen.runtime.batch import precision
from rowen.runtime.batch.memory import bytes_left, cache_bytes, sequences_in
from rowen.runtime.batch.output import Output
from rowen.runtime.batch.rows import Rows
from rowen.runtime.batch.runner import BatchRunner
from rowen.runtime.batch.serving.adapter import read_adapter
from rowen.runtime.device_memory import pool_bytes
from rowen.runtime.model_source import model_folder
from rowen.runtime.storage.inputs import local_copy
from rowen.runtime.worker import Progress

_START_SECONDS = 7 * 24 * 3600
"""How long vLLM waits for its own process. That counts while both stand still behind a closed gate."""


async def answer_rest(spec: BatchSpec, rows: Rows, output: Output, progress: Progress) -> None:
    """Answers the rows that have no result. Raises `WorkerError`, `OSError`."""
    model = model_folder(spec.model)
    adapter = read_adapter(local_copy(spec.adapter, "ModelMissing")) if spec.adapter else None
    # Read when torch and vLLM are loaded.
    os.environ |= {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_ENGINE_READY_TIMEOUT_S": str(_START_SECONDS),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))),
    }
    from rowen.runtime.batch.serving.arguments import given_arguments, server_arguments
    from rowen.runtime.batch.serving.server import serving

    given = given_arguments(spec.args)
    dtype = precision.chosen(model) if given.dtype == "auto" else given.dtype
    cache = _own_cache_bytes(model, spec.memory_bytes, dtype)
    sequences = sequences_in(model, pool_bytes() or cache, dtype)
    name = spec.model.name_or_path
    arguments = server_arguments(model, name, adapter, dtype, sequences, cache, spec.args)

    def computed(tokens: int) -> None:
        progress.report(len(output.done), len(rows), tokens)

    async with serving(arguments, f"weights and vLLM leave {quantity_text(cache)} for the cache", computed) as server:
        await BatchRunner(server, output, progress, adapter.name if adapter else name).run(rows)


def _own_cache_bytes(model: Path, memory_bytes: int, dtype: str) -> int:
    """Bytes of the cache in the job's own memory. Raises `WorkerError`."""
    if pool_bytes():
        # Used where the device turns out to have no pool. vLLM takes 0 for "as much as there is".
        return max(1, bytes_left(model, memory_bytes, dtype, 0))
    return cache_bytes(model, memory_bytes, dtype)
