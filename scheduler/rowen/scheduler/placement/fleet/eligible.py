"""The nodes on which pods can run, found without a look at each node for each job. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from rowen.scheduler.placement.constraints import Constraints, Requirement, Term
from rowen.scheduler.placement.eligibility import admits
from rowen.scheduler.snapshot import NodeView


class Eligible:
    """The nodes of one pass: their views, why each is closed (empty where it is open), and their numbers by name."""

    def __init__(self, views: Sequence[NodeView], refusals: Sequence[str], number: Mapping[str, int]) -> None:
        self._views, self._refusals, self._number = views, refusals, number
        self._known: dict[Constraints, frozenset[int]] = {}

    def nodes(self, constraints: Constraints) -> frozenset[int]:
        """The open nodes on which pods with these constraints can run, by number."""
        if constraints not in self._known:
            asks = constraints != Constraints()
            self._known[constraints] = frozenset(
                number
                for number in self._among(constraints)
                if not self._refusals[number]
                and (not (asks or self._views[number].taints) or admits(self._views[number], constraints))
            )
        return self._known[constraints]

    def _among(self, constraints: Constraints) -> Collection[int]:
        """Nodes among which all are that the constraints can mean: those of the rarest label that they ask for."""
        if constraints.node:
            return [self._number[constraints.node]] if constraints.node in self._number else []
        found: list[Collection[int]] = [self._labelled.get(label, []) for label in constraints.selector]
        alternatives = [constraints.terms, *(limit.terms for limit in constraints.volumes)]
        found += [self._meant(terms) for terms in alternatives if terms is not None]
        return min(found, key=len, default=range(len(self._views)))

    def _meant(self, terms: Iterable[Term]) -> Collection[int]:
        """Nodes among which all are on which one of the terms can hold: many a volume is of one node."""
        found: set[int] = set()
        for term in terms:
            named = [self._having(entry) for entry in term.labels if entry.operator == "In"]
            if not named:
                return range(len(self._views))
            rarest = min(named, key=len)
            found.update(rarest)
        return found

    def _having(self, requirement: Requirement) -> list[int]:
        labels = ((requirement.key, value) for value in requirement.values)
        return [number for label in labels for number in self._labelled.get(label, ())]

    @cached_property
    def _labelled(self) -> Mapping[tuple[str, str], list[int]]:
        """The nodes with each label, by number."""
        found: dict[tuple[str, str], list[int]] = {}
        for number, view in enumerate(self._views):
            for label in view.labels.items():
                found.setdefault(label, []).append(number)
        return found
