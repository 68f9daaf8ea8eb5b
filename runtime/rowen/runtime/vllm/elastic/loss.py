"""What a loss of memory makes worthless."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Holding:
    """Blocks that a request has, in the order of its tokens."""

    blocks: Sequence[int]
    unfinished: int
    """The first of them that a step without a result yet may have written to."""


def affected(lost: set[int], holdings: Mapping[str, Holding]) -> tuple[set[str], set[int]]:
    """The requests that have to compute again, and the blocks with meaningless content: lost ones and others.

    A request that has a lost block may have read it since, so what its unfinished steps wrote is meaningless, too. That
    may have been found as a prefix already by requests that do not have the lost block itself.
    """
    hit: set[str] = set()
    meaningless = set(lost)
    while True:
        more = [
            name for name, holding in holdings.items() if name not in hit and not meaningless.isdisjoint(holding.blocks)
        ]
        if not more:
            return hit, meaningless
        for name in more:
            hit.add(name)
            meaningless.update(block for block in holdings[name].blocks[holdings[name].unfinished :] if block)
