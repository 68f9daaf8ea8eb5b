"""Blocks of memory inside handles, by the buddy scheme: halves that are free both become one again."""

from dataclasses import dataclass

GRANULE_BYTES = 2048
"""The smallest block."""


@dataclass(frozen=True, order=True)
class Block:
    """`size_bytes` at byte `offset_bytes` of a handle, which is a multiple of that."""

    handle: int
    offset_bytes: int
    size_bytes: int

    @property
    def buddy(self) -> "Block":
        """The other half of the block that this one came from."""
        return Block(self.handle, self.offset_bytes ^ self.size_bytes, self.size_bytes)

    def halves(self) -> tuple["Block", "Block"]:
        """The two blocks that this one splits into."""
        size = self.size_bytes // 2
        return Block(self.handle, self.offset_bytes, size), Block(self.handle, self.offset_bytes + size, size)


def parts(size_bytes: int, handle_bytes: int) -> list[int]:
    """Sizes of blocks that hold so many bytes together, with less than a granule to spare; the largest come first."""
    whole, rest = divmod(-(-size_bytes // GRANULE_BYTES) * GRANULE_BYTES, handle_bytes)
    powers = [1 << bit for bit in reversed(range(rest.bit_length())) if rest >> bit & 1]
    return [handle_bytes] * whole + powers


class Buddy:
    """Which blocks of some handles are free. Knows no memory."""

    def __init__(self, handle_bytes: int) -> None:
        """Raises `ValueError` when a handle is no power of two, or smaller than a granule."""
        if handle_bytes < GRANULE_BYTES or handle_bytes & (handle_bytes - 1):
            raise ValueError(f"handles of {handle_bytes} bytes cannot be halved down to {GRANULE_BYTES}")
        self.handles: set[int] = set()
        """Those that blocks are taken from."""
        self._handle_bytes = handle_bytes
        self._free: dict[int, set[Block]] = {}
        """By size."""
        self._used: set[Block] = set()

    def add(self, handle: int) -> None:
        """Takes in a handle, all of it free. Raises `ValueError` when it is in already."""
        if handle in self.handles:
            raise ValueError(f"handle {handle} is in already")
        self.handles.add(handle)
        self._put(Block(handle, 0, self._handle_bytes))

    def remove(self, handle: int) -> None:
        """Lets go of a handle with all its blocks, used ones too."""
        self.handles.discard(handle)
        for blocks in (self._used, *self._free.values()):
            blocks.difference_update([block for block in blocks if block.handle == handle])

    def allocate(self, size_bytes: int) -> Block | None:
        """A free block of that size, out of the smallest that will do; None where there is none.

        Raises `ValueError` for a size that is not a granule times a power of two, or larger than a handle.
        """
        if not GRANULE_BYTES <= size_bytes <= self._handle_bytes or size_bytes & (size_bytes - 1):
            raise ValueError(f"no block has {size_bytes} bytes")
        sizes = [size for size, blocks in self._free.items() if size >= size_bytes and blocks]
        if not sizes:
            return None
        block = min(self._free[min(sizes)])
        self._free[block.size_bytes].remove(block)
        while block.size_bytes > size_bytes:
            block, other = block.halves()
            self._put(other)
        self._used.add(block)
        return block

    def release(self, block: Block) -> None:
        """Makes a block free again. Raises `ValueError` when it is not in use."""
        if block not in self._used:
            raise ValueError(f"not in use: {block}")
        self._used.remove(block)
        while block.size_bytes < self._handle_bytes and block.buddy in self._free.get(block.size_bytes, ()):
            self._free[block.size_bytes].remove(block.buddy)
            block = Block(block.handle, min(block.offset_bytes, block.buddy.offset_bytes), 2 * block.size_bytes)
        self._put(block)

    @property
    def free_bytes(self) -> int:
        """Of all free blocks together."""
        return sum(size * len(blocks) for size, blocks in self._free.items())

    def empty_handles(self) -> list[int]:
        """Handles that are free as a whole."""
        return sorted(block.handle for block in self._free.get(self._handle_bytes, ()))

    def _put(self, block: Block) -> None:
        self._free.setdefault(block.size_bytes, set()).add(block)
