"""`ElasticWorker`: vLLM's CPU worker with its key-value cache in the device's pool.

Written against vLLM 0.32.0. Without a part of the pool it is vLLM's worker.
"""

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from typing_extensions import override
from vllm.v1.executor import Executor, UniProcExecutor
from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec

from rowen.crds.base import quantity_text
from rowen.runtime.device_memory import open_part, pool_bytes
from rowen.runtime.log import get_logger
from rowen.runtime.memory.part import PoolPart
from rowen.runtime.vllm.elastic.attachment import Attachment, attach, attachment
from rowen.runtime.vllm.elastic.geometry import Geometry, TooLittleError, UnsuitableError, best_fit
from rowen.runtime.vllm.elastic.refusal import told
from rowen.runtime.vllm.seeded import SeededWorker

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.kv_cache_interface import KVCacheSpec

log = get_logger()

LAYOUT = "BLHNC"
"""Blocks outermost: a block is one piece of memory over all layers. The CPU kernels read it as they read LBHNC."""
_BLOCK_TOKENS = range(32, 257, 32)
"""Tokens in a block that the CPU kernels work well with."""
_POOL = "with a memoryLimit the cache lies in the device's pool"
_AGENT_SECONDS = 30.0
"""How long an engine waits for the agent, without which there is no pool. It serves anyway."""


class ElasticWorker(SeededWorker):
    """The cache's addresses are those of the arena: its whole range, of which little may have memory."""

    def __init__(self, vllm_config: "VllmConfig", *args: Any, **kwargs: Any) -> None:
        self._elastic = attachment() or _from_device(vllm_config)
        if self._elastic is not None:
            with told():
                refuse(vllm_config)
            part = self._elastic.part
            # No memory of the machine's is taken for it, so vLLM has nothing to measure.
            vllm_config.cache_config.kv_cache_memory_bytes = part.bytes
        super().__init__(vllm_config, *args, **kwargs)

    @override
    def load_model(self, *args: Any, **kwargs: Any) -> None:
        super().load_model(*args, **kwargs)
        if self._elastic is not None:
            with told():
                self._settle_geometry(self._elastic)

    @override
    def get_kv_cache_spec(self) -> "dict[str, KVCacheSpec]":
        specs: dict[str, KVCacheSpec] = super().get_kv_cache_spec()
        if self._elastic is None or self._elastic.geometry is None:
            return specs
        stride = self._elastic.geometry.block_bytes
        return {name: replace(spec, block_stride_alignment=stride) for name, spec in specs.items()}

    @override
    def get_supported_kv_cache_layouts(self) -> list[str]:
        return [LAYOUT] if self._elastic is not None else super().get_supported_kv_cache_layouts()

    @override
    def determine_available_memory(self) -> int:
        if self._elastic is None or self._elastic.geometry is None:
            return int(super().determine_available_memory())
        if self._should_warm_up_model():
            self.model_runner.warming_up_model()
        return self._elastic.geometry.blocks * self._elastic.geometry.block_bytes

    @override
    def _maybe_get_memory_pool_context(self, tag: str) -> AbstractContextManager[Any]:
        if self._elastic is not None and tag == "kv_cache":
            return _InArena(self._elastic)
        context: AbstractContextManager[Any] = super()._maybe_get_memory_pool_context(tag)
        return context

    def _settle_geometry(self, elastic: Attachment) -> None:
        """Chooses the size of a block so that blocks lie on handles without a rest."""
        cache_config, part = self.vllm_config.cache_config, elastic.part
        handle_bytes = part.arena.handle_bytes
        specs = list(self.model_runner.get_kv_cache_spec().values())
        if not specs or any(spec != specs[0] or not isinstance(spec, FullAttentionSpec) for spec in specs):
            raise UnsuitableError(
                f"{_POOL}, which takes models whose layers all keep the same full attention cache; this one has "
                f"{sorted({type(spec).__name__ for spec in specs}) or 'none'}: leave memoryLimit out"
            )
        tokens = specs[0].block_size
        sizes = _BLOCK_TOKENS
        if cache_config.user_specified_block_size or isinstance(specs[0], MLAAttentionSpec):
            sizes = range(tokens, tokens + 1)
        token_bytes = sum(spec.page_size_bytes for spec in specs) // tokens
        fit = best_fit(token_bytes, handle_bytes, sizes, tokens)
        cache_config.block_size = fit.tokens
        elastic.geometry = Geometry(handle_bytes, part.handles, fit.block_bytes)
        self._refuse_too_little(part, elastic.geometry, fit.tokens)
        log.info(
            "the key-value cache lies in the device's pool",
            block_tokens=fit.tokens,
            block_bytes=fit.block_bytes,
            padding=f"{fit.waste:.1%}",
            handle_bytes=handle_bytes,
            handles=part.handles,
        )

    def _refuse_too_little(self, part: PoolPart, geometry: Geometry, block_tokens: int) -> None:
        """All of one request has to fit, of the length that is given, and the null block. vLLM checks that too."""
        model = self.vllm_config.model_config
        given = model.original_max_model_len != -1
        tokens = model.max_model_len if given else 1
        blocks = -(-tokens // block_tokens) + 1
        if blocks > geometry.blocks:
            lower = ", or lower --max-model-len" if given else ""
            raise TooLittleError(
                f"a request of {tokens} tokens takes {quantity_text(blocks * geometry.block_bytes)} of cache, and "
                f"{part.in_words}: {part.remedy}{lower}"
            )


def refuse(config: "VllmConfig") -> None:
    """Raises `UnsuitableError` for what the pool decides, and what was never tried with memory that goes away."""
    parallel = config.parallel_config
    wrong = {
        "--tensor-parallel-size": parallel.tensor_parallel_size > 1,
        "--pipeline-parallel-size": parallel.pipeline_parallel_size > 1,
        "--data-parallel-size": parallel.data_parallel_size > 1,
        "--decode-context-parallel-size": parallel.decode_context_parallel_size > 1,
        "--distributed-executor-backend": not issubclass(Executor.get_class(config), UniProcExecutor),
        "--num-gpu-blocks-override": config.cache_config.num_gpu_blocks_override is not None,
        # Of all blocks of the range, most of which have no memory.
        "--watermark": config.scheduler_config.watermark > 0,
        "--kv-transfer-config": config.kv_transfer_config is not None,
        "--speculative-config": config.speculative_config is not None,
    }
    named = [option for option, is_set in wrong.items() if is_set]
    if named:
        raise UnsuitableError(f"{_POOL}, which does not go with {', '.join(named)}: change that, or leave it out")


def _from_device(config: "VllmConfig") -> Attachment | None:
    """Opens this engine's part of the pool; where there is none its cache takes as much of the process's own memory.

    Raises `ValueError`.
    """
    try:
        part = open_part(_AGENT_SECONDS)
    except OSError as error:
        log.error("the device's pool cannot be used: the engine keeps to memory of its own", error=str(error))
        part = None
    if part is not None:
        return attach(part)
    if pool_bytes():
        config.cache_config.kv_cache_memory_bytes = pool_bytes()
    return None


class _InArena(TorchFunctionMode):
    """vLLM allocates its cache inside of this; it gets the arena instead of memory of its own."""

    def __init__(self, elastic: Attachment) -> None:
        super().__init__()
        self._arena = elastic.part.arena

    @override
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.zeros:
            return func(*args, **(kwargs or {}))
        size = args[0]
        if size > len(self._arena.buffer):
            raise ValueError(f"the cache has {size} bytes, the arena {len(self._arena.buffer)}")
        return torch.frombuffer(self._arena.buffer, dtype=torch.int8, count=size)
