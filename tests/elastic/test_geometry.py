"""Where blocks lie on handles, and which size of block fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.runtime.vllm.elastic.geometry import WASTE_LIMIT, Fit, Geometry, UnsuitableError, best_fit, fit

MIB = 2**20
SIZES = range(32, 257, 32)

SEVERAL_BLOCKS = Geometry(handle_bytes=2 * MIB, handles=10, block_bytes=MIB // 2)
SEVERAL_HANDLES = Geometry(handle_bytes=2 * MIB, handles=10, block_bytes=6 * MIB)
ONE_EACH = Geometry(handle_bytes=2 * MIB, handles=10, block_bytes=2 * MIB)


@pytest.mark.parametrize(
    ("geometry", "slabs", "handles_per_slab", "blocks_per_slab", "blocks"),
    [(SEVERAL_BLOCKS, 10, 1, 4, 40), (SEVERAL_HANDLES, 3, 3, 1, 3), (ONE_EACH, 10, 1, 1, 10)],
)
def test_a_slab_is_whole(
    geometry: Geometry, slabs: int, handles_per_slab: int, blocks_per_slab: int, blocks: int
) -> None:
    assert geometry.slabs == slabs
    assert geometry.handles_per_slab == handles_per_slab
    assert geometry.blocks_per_slab == blocks_per_slab
    assert geometry.blocks == blocks


@pytest.mark.parametrize(
    ("geometry", "slab", "handles", "blocks"),
    [
        # The null block is left out wherever it lies.
        (SEVERAL_BLOCKS, 0, [0], [1, 2, 3]),
        (SEVERAL_BLOCKS, 9, [9], [36, 37, 38, 39]),
        (SEVERAL_HANDLES, 0, [0, 1, 2], []),
        (SEVERAL_HANDLES, 2, [6, 7, 8], [2]),
        (ONE_EACH, 0, [0], []),
        (ONE_EACH, 1, [1], [1]),
    ],
)
def test_what_a_slab_consists_of(geometry: Geometry, slab: int, handles: list[int], blocks: list[int]) -> None:
    assert list(geometry.handles_of(slab)) == handles
    assert list(geometry.blocks_of(slab)) == blocks
    assert {geometry.slab_of_handle(handle) for handle in handles} == {slab}


@pytest.mark.parametrize(
    ("geometry", "blocks", "handles"),
    [
        (SEVERAL_BLOCKS, [1, 3, 4], {0, 1}),
        (SEVERAL_BLOCKS, [39], {9}),
        (SEVERAL_HANDLES, [1, 2], {3, 4, 5, 6, 7, 8}),
        (ONE_EACH, [4], {4}),
        (ONE_EACH, [0], set()),
        (SEVERAL_BLOCKS, [0, 0], set()),
    ],
)
def test_handles_of_blocks(geometry: Geometry, blocks: list[int], handles: set[int]) -> None:
    assert geometry.handles_of_blocks(blocks) == handles


@pytest.mark.parametrize(
    ("tokens", "token_bytes", "expected"),
    [
        (128, 2**14, Fit(128, 2 * MIB, 0)),
        (128, 2**12, Fit(128, MIB // 2, 0)),
        (32, 2**17, Fit(32, 4 * MIB, 0)),
        # 1.75 MiB takes a handle; one byte more than a handle takes two; three eighths of a handle a half.
        (32, 7 * 2**13, Fit(32, 2 * MIB, 0.125)),
        (1, 2 * MIB + 1, Fit(1, 4 * MIB, 1 - (2 * MIB + 1) / (4 * MIB))),
        (1, 2 * MIB, Fit(1, 2 * MIB, 0)),
        (1, 2 * MIB - 1, Fit(1, 2 * MIB, 1 / (2 * MIB))),
        (3, MIB // 4, Fit(3, MIB, 0.25)),
    ],
)
def test_a_block_is_padded_to_handles_or_to_a_part_of_one(tokens: int, token_bytes: int, expected: Fit) -> None:
    assert fit(tokens, token_bytes, 2 * MIB) == expected


@pytest.mark.parametrize(
    ("token_bytes", "expected"),
    [
        # Llama 3 8B, 70B, Qwen 2.5 7B and 0.5B in half precision. Among equals the preferred size.
        (2 * 32 * 8 * 128 * 2, Fit(128, 16 * MIB, 0)),
        (2 * 80 * 8 * 128 * 2, Fit(128, 40 * MIB, 0)),
        (2 * 28 * 4 * 128 * 2, Fit(256, 14 * MIB, 0)),
        (2 * 24 * 2 * 64 * 2, Fit(160, 2 * MIB, 0.0625)),
    ],
)
def test_the_size_that_wastes_the_least(token_bytes: int, expected: Fit) -> None:
    assert best_fit(token_bytes, 2 * MIB, SIZES, preferred=128) == expected


@given(st.integers(64, 2**20), st.sampled_from([2**16, 2 * MIB, 32 * MIB]))
def test_with_a_free_choice_little_is_wasted(token_bytes: int, handle_bytes: int) -> None:
    chosen = best_fit(token_bytes, handle_bytes, SIZES, preferred=128)
    geometry = Geometry(handle_bytes, 1000, chosen.block_bytes)
    assert chosen.waste <= 0.2
    assert chosen.block_bytes >= chosen.tokens * token_bytes
    assert geometry.handles_per_slab * handle_bytes == geometry.blocks_per_slab * chosen.block_bytes


def test_a_given_size_that_wastes_too_much_is_refused() -> None:
    assert best_fit(MIB // 4, 2 * MIB, [3], preferred=3).waste == WASTE_LIMIT
    with pytest.raises(
        UnsuitableError, match=r"blocks of 5 tokens with 256Ki each would waste 38% of handles with 2Mi,"
    ):
        best_fit(MIB // 4, 2 * MIB, [5], preferred=5)
