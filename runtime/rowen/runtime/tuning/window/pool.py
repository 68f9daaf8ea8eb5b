"""Tensors that are kept in the arena, where they may be lost."""

import weakref
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import count

import torch

from rowen.runtime.memory.arena import Arena
from rowen.runtime.memory.ledger import Ledger
from rowen.runtime.tuning.window.buddy import Block, Buddy, parts
from rowen.runtime.tuning.window.handles import Handles


@dataclass(eq=False)
class Stored:
    """A tensor's copy in the pool; its memory is free again when this object is gone."""

    shape: torch.Size
    dtype: torch.dtype
    owner: Hashable
    """In the ledger."""
    blocks: list[Block]
    serials: dict[int, int | None]
    """Of the handles that it lies in, the number of their mapping."""
    outside: torch.Tensor | None = None
    """The tensor itself once it had to leave the pool."""


@dataclass(frozen=True)
class _Garbage:
    """What was a stored tensor's."""

    owner: Hashable
    blocks: list[Block]
    serials: dict[int, int | None]


class TensorPool:
    """Copies of tensors in handles of the arena."""

    def __init__(
        self,
        arena: Arena,
        handles: Handles,
        numbers: range,
        ledger: Ledger | None,
        *,
        make_way: Callable[[int], bool],
    ) -> None:
        """`make_way` gives so many handles of other use back, or says that it will not."""
        self._memory = torch.frombuffer(arena.buffer, dtype=torch.uint8)
        self._handle_bytes = arena.handle_bytes
        self._handles = handles
        self._numbers = numbers
        self._ledger = ledger
        self._make_way = make_way
        self._buddy = Buddy(arena.handle_bytes)
        self._serials: dict[int, int | None] = {}
        """Of the handles that the buddy scheme has, the number of their mapping."""
        self._stored: weakref.WeakSet[Stored] = weakref.WeakSet()
        self._owners = count()
        self._garbage: deque[_Garbage] = deque()

    def store(self, tensor: torch.Tensor, tokens: int) -> Stored | None:
        """A copy of the tensor, made by computing so many tokens; None if it is not contiguous or finds no room."""
        if not tensor.is_contiguous():
            return None
        with self._handles.lock:
            self._tidy()
            blocks = self._allocate(parts(tensor.nbytes, self._handle_bytes))
            if blocks is None:
                return None
            serials = {block.handle: self._serials[block.handle] for block in blocks}
            owner = "input", next(self._owners)
            if self._ledger is not None:
                self._ledger.add(owner, serials)
                self._ledger.charge({owner: tokens})
        stored = Stored(tensor.shape, tensor.dtype, owner, blocks, serials)
        weakref.finalize(stored, self._garbage.append, _Garbage(owner, blocks, serials)).atexit = False
        self._copy(_bytes(tensor), stored, into_pool=True)
        with self._handles.lock:
            self._handles.notice()
            self._stored.add(stored)
            return stored if self._is_whole(stored) else None

    def load(self, stored: Stored) -> torch.Tensor | None:
        """The tensor; None where it was lost."""
        if stored.outside is not None:
            return stored.outside
        with self._handles.lock:
            self._tidy()
            if not self._is_whole(stored):
                return None
        tensor = torch.empty(stored.shape, dtype=stored.dtype)
        self._copy(_bytes(tensor), stored, into_pool=False)
        with self._handles.lock:
            self._handles.notice()
            return tensor if self._is_whole(stored) else None

    def vacate(self) -> None:
        """Gives all memory back; the tensors move into this process's own."""
        with self._handles.lock:
            for stored in list(self._stored):
                if stored.outside is None:
                    stored.outside = self.load(stored)
                if self._ledger is not None:
                    self._ledger.drop(stored.owner)
            for handle in list(self._buddy.handles):
                self._drop(handle)
            self._tidy()

    @property
    def held(self) -> int:
        """Handles that the pool has."""
        return len(self._buddy.handles)

    def _copy(self, outside: torch.Tensor, stored: Stored, *, into_pool: bool) -> None:
        begin = 0
        for block in stored.blocks:
            first = block.handle * self._handle_bytes + block.offset_bytes
            size = min(block.size_bytes, outside.numel() - begin)
            inside, part = self._memory[first : first + size], outside[begin : begin + size]
            if into_pool:
                inside.copy_(part)
            else:
                part.copy_(inside)
            begin += size

    def _is_whole(self, stored: Stored) -> bool:
        return all(self._handles.serial(handle) == serial for handle, serial in stored.serials.items())

    def _tidy(self) -> None:
        """Frees what nobody refers to any more, and gives empty handles back."""
        self._handles.notice()
        for handle, serial in list(self._serials.items()):
            if self._handles.serial(handle) != serial:
                self._drop(handle)
        while self._garbage:
            garbage = self._garbage.popleft()
            for block in garbage.blocks:
                if self._serials.get(block.handle) == garbage.serials[block.handle]:
                    self._buddy.release(block)
            if self._ledger is not None:
                self._ledger.drop(garbage.owner)
        for handle in self._buddy.empty_handles():
            self._drop(handle)

    def _drop(self, handle: int) -> None:
        self._buddy.remove(handle)
        del self._serials[handle]
        self._handles.unmap([handle])

    def _allocate(self, sizes: list[int]) -> list[Block] | None:
        # All at once: for a part of them other use would make way in vain.
        missing = -(-(sum(sizes) - self._buddy.free_bytes) // self._handle_bytes)
        if missing > 0 and not self._grow(missing):
            return None
        blocks: list[Block] = []
        for size in sizes:
            block = self._buddy.allocate(size)
            if block is None:
                for done in blocks:
                    self._buddy.release(done)
                return None
            blocks.append(block)
        return blocks

    def _grow(self, handles: int) -> bool:
        """Takes so many handles, or none and returns False."""
        unused = [number for number in self._numbers if number not in self._buddy.handles][:handles]
        if len(unused) < handles or not self._make_way(handles):
            return False
        mapped = self._handles.map(unused)
        if len(mapped) < handles:
            self._handles.unmap(mapped)
            return False
        for handle in mapped:
            self._serials[handle] = self._handles.serial(handle)
            self._buddy.add(handle)
        return True


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().view(-1).view(torch.uint8)
