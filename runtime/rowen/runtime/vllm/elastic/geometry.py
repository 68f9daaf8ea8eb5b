"""How blocks of a key-value cache lie on handles."""

from collections.abc import Iterable
from dataclasses import dataclass

from rowen.crds.base import quantity_text

WASTE_LIMIT = 0.25
"""Most of the memory that may be lost to padding. Where the size of a block may be chosen it is at most a fifth."""


class UnsuitableError(ValueError):
    """This engine cannot keep its cache in memory that changes its owner."""


class TooLittleError(UnsuitableError):
    """Its part of the pool has no room for one request."""


@dataclass(frozen=True)
class Geometry:
    """Blocks of equal size over handles of equal size; one of the two is a whole multiple of the other.

    A *slab* is the smallest piece of both whole handles and whole blocks: one handle with some blocks, or one block
    over some handles. Block 0 is vLLM's null block. Its content is never used, so it needs no memory, and a slab that
    holds nothing else is never mapped.
    """

    handle_bytes: int
    handles: int
    """Handles in the range."""
    block_bytes: int
    """From the begin of a block to the begin of the next."""

    @property
    def blocks(self) -> int:
        """Blocks in the range, the null block among them."""
        return self.slabs * self.blocks_per_slab

    @property
    def slabs(self) -> int:
        """Slabs in the range; handles beyond the last whole one are left alone."""
        return self.handles // self.handles_per_slab

    @property
    def handles_per_slab(self) -> int:
        """Handles of a slab."""
        return max(1, self.block_bytes // self.handle_bytes)

    @property
    def blocks_per_slab(self) -> int:
        """Blocks of a slab."""
        return max(1, self.handle_bytes // self.block_bytes)

    def slab_of_handle(self, handle: int) -> int:
        """The slab that the handle is part of."""
        return handle // self.handles_per_slab

    def handles_of(self, slab: int) -> range:
        """Handles of the slab."""
        return range(slab * self.handles_per_slab, (slab + 1) * self.handles_per_slab)

    def blocks_of(self, slab: int) -> range:
        """Blocks of the slab that may hold something."""
        return range(max(1, slab * self.blocks_per_slab), (slab + 1) * self.blocks_per_slab)

    def handles_of_blocks(self, blocks: Iterable[int]) -> set[int]:
        """Handles that these blocks lie on; the null block lies on none."""
        slabs = {block // self.blocks_per_slab for block in blocks if block}
        return {handle for slab in slabs for handle in self.handles_of(slab)}


@dataclass(frozen=True)
class Fit:
    """A size of block that lies on handles without a rest."""

    tokens: int
    """Tokens in a block."""
    block_bytes: int
    """From the begin of a block to the begin of the next, padding included."""
    waste: float
    """Fraction of the memory that is padding."""


def best_fit(token_bytes: int, handle_bytes: int, sizes: Iterable[int], preferred: int) -> Fit:
    """Of these numbers of tokens in a block the one that wastes the least, and the nearest to `preferred` among equals.

    `token_bytes` is what a token takes over all layers. Raises `UnsuitableError` when each wastes too much.
    """
    fits = [fit(tokens, token_bytes, handle_bytes) for tokens in sizes]
    best = min(fits, key=lambda each: (each.waste, abs(each.tokens - preferred)))
    if best.waste > WASTE_LIMIT:
        raise UnsuitableError(
            f"blocks of {best.tokens} tokens with {quantity_text(token_bytes)} each would waste {best.waste:.0%} of "
            f"handles with {quantity_text(handle_bytes)}, and at most {WASTE_LIMIT:.0%} may be: try another "
            "--block-size or none, or leave memoryLimit out"
        )
    return best


def fit(tokens: int, token_bytes: int, handle_bytes: int) -> Fit:
    """Blocks of so many tokens, padded to whole handles, or to such a part of a handle as divides it."""
    content = tokens * token_bytes
    if content >= handle_bytes:
        block = -(-content // handle_bytes) * handle_bytes
    else:
        # Handles are powers of two, so their whole parts are too.
        block = handle_bytes >> ((handle_bytes // content).bit_length() - 1)
    return Fit(tokens, block, 1 - content / block)
