"""Where the layers' tensors lie in the arena."""

import pytest
import torch
from memory.local_arena import LocalArena

from rowen.runtime.tuning.window.places import ALIGNMENT_BYTES, Place, find_places

HANDLE = 4096


def fill(place: Place) -> None:
    for pieces in place.pieces.values():
        for piece in pieces:
            piece.target.copy_(piece.source)


@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_each_layer_has_whole_handles_and_each_handle_its_part(dtype: torch.dtype | None) -> None:
    torch.manual_seed(0)
    kind = torch.float64 if dtype is None else torch.bfloat16
    layers = [[torch.rand(5, 3, dtype=kind), torch.rand(40, 30, dtype=kind)], [torch.rand(7, dtype=kind)], []]
    size = 8 if dtype is None else 4
    arena = LocalArena(4, HANDLE)
    places = find_places(arena, layers, dtype, other_handles=0)
    first = -(-(128 + 1200 * size) // HANDLE)
    assert [place.handles for place in places] == [range(first), range(first, first + 1), range(first + 1, first + 1)]
    base = torch.frombuffer(arena.buffer, dtype=torch.uint8).data_ptr()
    for place in places:
        for handle, pieces in place.pieces.items():
            begin = base + handle * HANDLE
            assert handle in place.handles
            assert pieces
            for piece in pieces:
                assert (
                    begin <= piece.target.data_ptr() < piece.target.data_ptr() + piece.target.nbytes <= begin + HANDLE
                )
        fill(place)
    for place, tensors in zip(places, layers, strict=True):
        for move, tensor in zip(place.moves, tensors, strict=True):
            assert move.inside.data_ptr() % ALIGNMENT_BYTES == 0
            assert torch.equal(move.inside, tensor.to(dtype or kind))
            assert move.outside.data_ptr() == tensor.data_ptr()


def test_a_tensor_may_end_where_a_handle_does() -> None:
    arena = LocalArena(3, HANDLE)
    places = find_places(
        arena, [[torch.rand(HANDLE // 4), torch.rand(1)], [torch.rand(HANDLE // 4)]], None, other_handles=0
    )
    assert [len(place.handles) for place in places] == [2, 1]
    assert [[len(pieces) for pieces in place.pieces.values()] for place in places] == [[1, 1], [1]]
