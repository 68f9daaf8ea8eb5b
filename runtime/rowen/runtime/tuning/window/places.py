"""Places of the layers' frozen tensors in the arena: whole handles for each layer, one layer after the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from rowen.runtime.memory.arena import Arena

ALIGNMENT_BYTES = 64
"""As torch's own allocator aligns: kernels may sum in another order elsewhere."""


@dataclass(frozen=True)
class Piece:
    """The part of a tensor that lies in one handle."""

    target: torch.Tensor
    source: torch.Tensor


@dataclass(frozen=True)
class Move:
    """A tensor, what it holds in the arena and what it held before."""

    tensor: torch.Tensor
    inside: torch.Tensor
    outside: torch.Tensor


@dataclass(frozen=True)
class Place:
    """A layer's place."""

    handles: range
    pieces: dict[int, list[Piece]]
    """What each of the handles holds."""
    moves: list[Move]


def handle_counts(layers: Sequence[Sequence[torch.Tensor]], dtype: torch.dtype | None, handle_bytes: int) -> list[int]:
    """Of each layer, the handles that its tensors take in that type or their own."""
    return [-(-_offsets(tensors, dtype)[-1] // handle_bytes) for tensors in layers]


def find_places(
    arena: Arena, layers: Sequence[Sequence[torch.Tensor]], dtype: torch.dtype | None, *, other_handles: int
) -> list[Place]:
    """Places for the layers' tensors, in that type or their own, from the first handle on. Moves nothing.

    Raises `ValueError` when the arena's range is too small for them and so many other handles.
    """
    counts = handle_counts(layers, dtype, arena.handle_bytes)
    if sum(counts) + other_handles > arena.capacity:
        needed = f"the layers' weights take {sum(counts)} handles, besides {other_handles} for inputs"
        raise ValueError(f"{needed}; the arena has {arena.capacity}")
    places = []
    first = 0
    for tensors, count in zip(layers, counts, strict=True):
        places.append(_place(arena, range(first, first + count), tensors, dtype))
        first += count
    return places


def _offsets(tensors: Sequence[torch.Tensor], dtype: torch.dtype | None) -> list[int]:
    """Where each tensor begins in its layer's range, and last the end of all, in bytes."""
    offsets = [0]
    for tensor in tensors:
        end = offsets[-1] + tensor.numel() * (dtype or tensor.dtype).itemsize
        offsets.append(-(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
    return offsets


def _place(arena: Arena, handles: range, tensors: Sequence[torch.Tensor], dtype: torch.dtype | None) -> Place:
    pieces: dict[int, list[Piece]] = {handle: [] for handle in handles}
    moves = []
    for tensor, offset in zip(tensors, _offsets(tensors, dtype), strict=False):
        kind, begin = dtype or tensor.dtype, handles.start * arena.handle_bytes + offset
        inside = torch.frombuffer(arena.buffer, dtype=kind, count=tensor.numel(), offset=begin)
        outside = tensor.detach()
        moves.append(Move(tensor, inside.view(tensor.shape), outside))
        flat = outside.view(-1)
        for handle in range(begin // arena.handle_bytes, (begin + inside.nbytes - 1) // arena.handle_bytes + 1):
            start = max(0, handle * arena.handle_bytes - begin) // kind.itemsize
            end = min(inside.nbytes, (handle + 1) * arena.handle_bytes - begin) // kind.itemsize
            pieces[handle].append(Piece(inside[start:end], flat[start:end]))
    return Place(handles, pieces, moves)
