"""Which arena this process's engine keeps its cache in. vLLM makes scheduler and worker by name, so they ask here."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowen.runtime.memory.part import PoolPart
from rowen.runtime.vllm.elastic.geometry import Geometry, UnsuitableError
from rowen.runtime.vllm.elastic.refusal import told

if TYPE_CHECKING:
    from vllm.v1.kv_cache_interface import KVCacheConfig


@dataclass
class Attachment:
    """What the next engine keeps its cache in."""

    part: PoolPart
    geometry: Geometry | None = None
    """How the cache lies on the arena, once the worker has settled it."""


_attachment: Attachment | None = None


def attach(part: PoolPart) -> Attachment:
    """The next engine of this process keeps its cache in this part of the pool."""
    global _attachment
    _attachment = Attachment(part)
    return _attachment


def attachment() -> Attachment | None:
    """What was attached; None where the cache is vLLM's own."""
    return _attachment


@told()
def geometry_of(attached: Attachment, config: "KVCacheConfig") -> Geometry:
    """How the cache lies on the arena. Raises `UnsuitableError` when the worker did not put it there."""
    if attached.geometry is None:
        raise UnsuitableError(
            "the scheduler finds no cache in the arena: the engine needs vLLM's own worker (no --worker-cls) and "
            "--distributed-executor-backend vllm.v1.executor.uniproc_executor.UniProcExecutor"
        )
    laid = {(tensor.block_stride, config.num_blocks) for tensor in config.kv_cache_tensors}
    expected = (attached.geometry.block_bytes, attached.geometry.blocks)
    if laid != {expected}:
        raise UnsuitableError(
            f"vLLM laid out its cache as {sorted(laid)} (bytes of a block, blocks), not as {expected}: leave out the "
            "options that size it, or memoryLimit"
        )
    return attached.geometry
