"""`ElasticWorker`: vLLM's CPU worker with its key-value cache in the arena (`--worker-cls`).

Written against vLLM 0.32.0. Without an arena it is vLLM's worker.
"""

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog
import torch
from torch.overrides import TorchFunctionMode
from typing_extensions import override
from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec
from vllm.v1.worker.cpu_worker import CPUWorker

from rowen.runtime.vllm.elastic.attachment import Attachment, attachment
from rowen.runtime.vllm.elastic.geometry import Geometry, UnsuitableError, best_fit

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.kv_cache_interface import KVCacheSpec

log = structlog.get_logger()

LAYOUT = "BLHNC"
"""Blocks outermost: a block is one piece of memory over all layers. The CPU kernels read it as they read LBHNC."""
_BLOCK_TOKENS = range(32, 257, 32)
"""Tokens in a block that the CPU kernels work well with."""


class ElasticWorker(CPUWorker):  # type: ignore[misc]
    """The cache's addresses are those of the arena: its whole range, of which little may have memory."""

    def __init__(self, vllm_config: "VllmConfig", *args: Any, **kwargs: Any) -> None:
        self._elastic = attachment()
        if self._elastic is not None:
            refuse(vllm_config)
            arena = self._elastic.arena
            # No memory of the machine's is taken for it, so vLLM has nothing to measure.
            vllm_config.cache_config.kv_cache_memory_bytes = arena.capacity * arena.handle_bytes
        super().__init__(vllm_config, *args, **kwargs)

    @override
    def load_model(self, *args: Any, **kwargs: Any) -> None:
        super().load_model(*args, **kwargs)
        if self._elastic is not None:
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
        return self._elastic.geometry.blocks * self._elastic.geometry.block_bytes

    @override
    def _maybe_get_memory_pool_context(self, tag: str) -> AbstractContextManager[Any]:
        if self._elastic is not None and tag == "kv_cache":
            return _InArena(self._elastic)
        context: AbstractContextManager[Any] = super()._maybe_get_memory_pool_context(tag)
        return context

    def _settle_geometry(self, elastic: Attachment) -> None:
        """Chooses the size of a block so that blocks lie on handles without a rest."""
        cache_config, arena = self.vllm_config.cache_config, elastic.arena
        specs = list(self.model_runner.get_kv_cache_spec().values())
        if not specs or any(spec != specs[0] or not isinstance(spec, FullAttentionSpec) for spec in specs):
            raise UnsuitableError(
                "elastic memory takes models whose layers all keep the same full attention cache; this one has "
                f"{sorted({type(spec).__name__ for spec in specs}) or 'none'}"
            )
        tokens = specs[0].block_size
        sizes = _BLOCK_TOKENS
        if cache_config.user_specified_block_size or isinstance(specs[0], MLAAttentionSpec):
            sizes = range(tokens, tokens + 1)
        token_bytes = sum(spec.page_size_bytes for spec in specs) // tokens
        fit = best_fit(token_bytes, arena.handle_bytes, sizes, tokens)
        cache_config.block_size = fit.tokens
        elastic.geometry = Geometry(arena.handle_bytes, arena.capacity, fit.block_bytes)
        log.info(
            "the key-value cache lies in the device's pool",
            block_tokens=fit.tokens,
            block_bytes=fit.block_bytes,
            padding=f"{fit.waste:.1%}",
            handle_bytes=arena.handle_bytes,
            handles=arena.capacity,
        )


def refuse(config: "VllmConfig") -> None:
    """Raises `UnsuitableError` for what was never tried with memory that goes away."""
    parallel = config.parallel_config
    wrong = {
        "--tensor-parallel-size": parallel.tensor_parallel_size > 1,
        "--pipeline-parallel-size": parallel.pipeline_parallel_size > 1,
        "--data-parallel-size": parallel.data_parallel_size > 1,
        "--decode-context-parallel-size": parallel.decode_context_parallel_size > 1,
        "--kv-transfer-config": config.kv_transfer_config is not None,
        "--speculative-config": config.speculative_config is not None,
    }
    named = [option for option, is_set in wrong.items() if is_set]
    if named:
        raise UnsuitableError(f"elastic memory does not go with {', '.join(named)}")


class _InArena(TorchFunctionMode):
    """vLLM allocates its cache inside of this; it gets the arena instead of memory of its own."""

    def __init__(self, elastic: Attachment) -> None:
        super().__init__()
        self._arena = elastic.arena

    @override
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.zeros:
            return func(*args, **(kwargs or {}))
        size = args[0]
        if size > len(self._arena.buffer):
            raise ValueError(f"the cache has {size} bytes, the arena {len(self._arena.buffer)}")
        return torch.frombuffer(self._arena.buffer, dtype=torch.int8, count=size)
