"""The cache is as large as the arena that the agent gives, whatever was asked for."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from memory.local_arena import LocalArena
from structlog.testing import capture_logs
from vllm.v1.kv_cache_interface import FullAttentionSpec

from rowen.runtime.memory.part import PoolPart
from rowen.runtime.vllm.elastic.attachment import Attachment, geometry_of
from rowen.runtime.vllm.elastic.geometry import Geometry, TooLittleError, UnsuitableError
from rowen.runtime.vllm.elastic.worker import ElasticWorker

BLOCK_BYTES, TOKENS = 2**15, 32
"""A block of this model on a handle: two layers with 512 bytes for a token each."""


class Worker(ElasticWorker):
    """A worker that has loaded a model, without the model."""

    def __init__(self, part: PoolPart, length: int, given: int | None) -> None:
        self._elastic = self._attached = Attachment(part)
        model = SimpleNamespace(max_model_len=length, original_max_model_len=given)
        cache = SimpleNamespace(block_size=TOKENS, user_specified_block_size=True)
        self.vllm_config: Any = SimpleNamespace(model_config=model, cache_config=cache)
        spec = FullAttentionSpec(block_size=TOKENS, num_kv_heads=1, head_size=64, dtype=torch.float32)
        self.model_runner: Any = SimpleNamespace(get_kv_cache_spec=lambda: {"0": spec, "1": spec})

    def _should_warm_up_model(self) -> bool:
        return False


def cache_bytes(part: PoolPart, length: int, given: int | None) -> int:
    worker = Worker(part, length, given)
    worker._settle_geometry(worker._attached)
    return worker.determine_available_memory()


@pytest.mark.parametrize("capacity", [2, 6, 17])
def test_it_has_as_many_blocks_as_handles_were_given(capacity: int) -> None:
    part = PoolPart(LocalArena(capacity, BLOCK_BYTES), capacity, asked_bytes=64 * BLOCK_BYTES)
    assert cache_bytes(part, TOKENS, None) == capacity * BLOCK_BYTES


@pytest.mark.parametrize(("length", "given"), [(6 * TOKENS, None), (6 * TOKENS, 6 * TOKENS), (5 * TOKENS + 1, None)])
def test_an_engine_whose_longest_request_can_never_fit_is_refused(length: int, given: int | None) -> None:
    part = PoolPart(LocalArena(6, BLOCK_BYTES), 6, asked_bytes=64 * BLOCK_BYTES)
    assert cache_bytes(part, 5 * TOKENS, given) == 6 * BLOCK_BYTES
    with pytest.raises(TooLittleError, match=r"takes 224Ki .* has 192Ki, although memoryLimit") as told:
        cache_bytes(part, length, given)
    assert str(told.value).endswith("take a device with more memory, or lower --max-model-len")


def test_where_the_length_is_what_fits_one_token_has_to() -> None:
    assert cache_bytes(PoolPart(LocalArena(2, BLOCK_BYTES), 2), 8192, -1) == 2 * BLOCK_BYTES
    with pytest.raises(TooLittleError, match=r"of 1 tokens takes 64Ki .* leaves 32Ki .*: raise memoryLimit$"):
        cache_bytes(PoolPart(LocalArena(2, BLOCK_BYTES), 1), 8192, -1)


def laid_out(stride: int, blocks: int) -> Any:
    """What vLLM tells the scheduler of a cache of two layers."""
    return SimpleNamespace(kv_cache_tensors=[SimpleNamespace(block_stride=stride)] * 2, num_blocks=blocks)


@pytest.mark.parametrize(
    ("settled", "config", "words"),
    [
        (None, laid_out(BLOCK_BYTES, 6), "--worker-cls"),
        (Geometry(BLOCK_BYTES, 6, BLOCK_BYTES), laid_out(BLOCK_BYTES, 5), r"\(32768, 5\).* not as \(32768, 6\)"),
        (Geometry(BLOCK_BYTES, 6, BLOCK_BYTES), laid_out(BLOCK_BYTES // 2, 6), r"\(16384, 6\).* not as \(32768, 6\)"),
    ],
)
def test_a_cache_that_lies_otherwise_than_in_the_arena_is_refused_in_one_line(
    settled: Geometry | None, config: Any, words: str
) -> None:
    attached = Attachment(PoolPart(LocalArena(6, BLOCK_BYTES), 6), settled)
    with capture_logs() as logs, pytest.raises(UnsuitableError, match=words) as told:
        geometry_of(attached, config)
    assert [(entry["event"], entry["error"]) for entry in logs] == [("the engine cannot start", str(told.value))]


def test_the_scheduler_takes_the_cache_that_was_settled() -> None:
    settled = Geometry(BLOCK_BYTES, 6, BLOCK_BYTES)
    attached = Attachment(PoolPart(LocalArena(6, BLOCK_BYTES), 6), settled)
    assert geometry_of(attached, laid_out(BLOCK_BYTES, 6)) == settled
