"""Changes that cosmic-ray does not know: membership, least and greatest, conditions of filters and of `elif`."""

from collections.abc import Iterator
from typing import Any

import parso
from cosmic_ray.operators.operator import Operator
from parso.python.tree import IfStmt, Name

Position = tuple[tuple[int, int], tuple[int, int]]


class SwapMembership(Operator):
    """`in` becomes `not in`, and the other way round."""

    def mutation_positions(self, node: Any) -> Iterator[Position]:
        """Each such comparison."""
        for _, comparison in self._comparisons(node):
            yield comparison.start_pos, comparison.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The node with that comparison swapped."""
        place, comparison = list(self._comparisons(node))[index]
        other = " not in" if comparison.get_code().strip() == "in" else " in"
        node.children[place] = parso.parse(other)
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """None: the tests have them."""
        return ()

    @staticmethod
    def _comparisons(node: Any) -> Iterator[tuple[int, Any]]:
        if node.type == "comparison":
            for place, child in enumerate(node.children):
                if place % 2 and child.get_code().split() in (["in"], ["not", "in"]):
                    yield place, child


class SwapName(Operator):
    """`min` becomes `max`, `any` becomes `all`, and the other way round."""

    _OTHER = {"min": "max", "max": "min", "any": "all", "all": "any"}

    def mutation_positions(self, node: Any) -> Iterator[Position]:
        """Each such name, of a method too."""
        if isinstance(node, Name) and node.value in self._OTHER:
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The other name."""
        node.value = self._OTHER[node.value]
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """None: the tests have them."""
        return ()


class NegateFilter(Operator):
    """The condition of a comprehension or an `elif` becomes its contrary."""

    def mutation_positions(self, node: Any) -> Iterator[Position]:
        """Each condition that cosmic-ray's `AddNot` leaves as it is."""
        for place in self._places(node):
            yield node.children[place].start_pos, node.children[place].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The node with that condition negated."""
        place = self._places(node)[index]
        node.children[place] = parso.parse(f" not ({node.children[place].get_code().strip()})")
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """None: the tests have them."""
        return ()

    @staticmethod
    def _places(node: Any) -> list[int]:
        if node.type == "comp_if":
            return [1]
        if isinstance(node, IfStmt):
            return [place + 1 for place, child in enumerate(node.children) if getattr(child, "value", "") == "elif"]
        return []
