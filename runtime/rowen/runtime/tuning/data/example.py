"""A row as tokens."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

IGNORED = -100
"""The label of a token that is not learned, as torch's losses know it."""


@dataclass(frozen=True)
class Example:
    """Token ids of a row, and of each token what is learned: its id, or `IGNORED`."""

    tokens: Sequence[int]
    labels: Sequence[int]

    def cut(self, length: int) -> "Example":
        """Its beginning, in four bytes a number: all examples of a dataset are in memory together."""
        return Example(array("i", self.tokens[:length]), array("i", self.labels[:length]))

    @property
    def is_learned(self) -> bool:
        """Whether there is anything to learn; the first token has nothing before it that it could follow from."""
        later = self.labels[1:]
        return later.count(IGNORED) < len(later)
