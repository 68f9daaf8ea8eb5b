"""The nodes on which pods can run, for all nodes at once: what `eligibility.admits` says of each. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rowen.scheduler.placement.constraints import Constraints, Requirement, Taint, Term
from rowen.scheduler.placement.eligibility import integer, untolerated
from rowen.scheduler.placement.fleet.columns import Flags, Rows
from rowen.scheduler.snapshot import NodeView

_KEPT = 256
"""So many constraints are remembered: every job of a tenant's may have its own."""


@dataclass
class Values:
    """What nodes have for a key: of so many in all, the numbers of those with each value."""

    count: int
    nodes: dict[str, list[int]] = field(default_factory=dict)

    def on(self, values: Iterable[str]) -> Flags:
        """Where it has one of these values."""
        flags = np.zeros(self.count, np.bool_)
        flags[[number for value in values for number in self.nodes.get(value, ())]] = True
        return flags

    @cached_property
    def there(self) -> Flags:
        """Where it has any value."""
        return self.on(self.nodes)

    def where(self, requirement: Requirement) -> Flags:
        """Where the requirement holds; no walk over all values, of which a host's name has as many as there are nodes.

        A template may ask hundreds of such questions, and every job others.
        """
        match requirement.operator:
            case "In":
                return self.on(requirement.values)
            case "NotIn":
                return ~self.on(requirement.values)
            case "Exists":
                return self.there
            case "DoesNotExist":
                return ~self.there
            case "Gt" | "Lt":
                return self._compared(requirement)

    def _compared(self, requirement: Requirement) -> Flags:
        flags, bound = np.zeros(self.count, np.bool_), integer(requirement.values[0])
        if bound is not None:
            integers, numbers = self._integers
            flags[numbers[integers > bound if requirement.operator == "Gt" else integers < bound]] = True
        return flags

    @cached_property
    def _integers(self) -> tuple[NDArray[np.int64], Rows]:
        """The values that are integers, and the number of each one's node."""
        read = ((integer(value), numbers) for value, numbers in self.nodes.items())
        found = [(value, number) for value, numbers in read if value is not None for number in numbers]
        return np.array([value for value, _ in found], np.int64), np.array([number for _, number in found], np.intp)


class Eligible:
    """The nodes of one pass: their views, why each is closed (empty where it is open), and their numbers by name."""

    def __init__(self, views: Sequence[NodeView], refusals: Sequence[str], number: Mapping[str, int]) -> None:
        self._views = views
        self._names = Values(len(views), {name: [at] for name, at in number.items()})
        self._none = Values(len(views))
        self._open: Flags = np.array([not refusal for refusal in refusals], np.bool_)
        self._known: dict[Constraints, frozenset[int]] = {}

    def nodes(self, constraints: Constraints) -> frozenset[int]:
        """The open nodes on which pods with these constraints can run, by number."""
        found = self._known.get(constraints)
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[constraints] = frozenset(np.flatnonzero(self._met(constraints)).tolist())
        return found

    def _met(self, constraints: Constraints) -> Flags:
        met = self._open.copy()
        if constraints.node:
            met &= self._names.on((constraints.node,))
        for taints, numbers in self._tainted.items():
            if untolerated(taints, constraints) is not None:
                met[numbers] = False
        for key, value in constraints.selector:
            met &= self._labels.get(key, self._none).on((value,))
        for terms in (constraints.terms, *(limit.terms for limit in constraints.volumes)):
            if terms is not None:
                met &= self._any(terms)
        return met

    def _any(self, terms: Iterable[Term]) -> Flags:
        found = np.zeros(len(self._views), np.bool_)
        for term in terms:
            holding = np.ones(len(self._views), np.bool_)
            for entry in term.labels:
                holding &= self._labels.get(entry.key, self._none).where(entry)
            for entry in term.fields:
                holding &= self._names.where(entry)
            found |= holding
        return found

    @cached_property
    def _labels(self) -> Mapping[str, Values]:
        """The nodes by key and value of their labels."""
        found: dict[str, Values] = {}
        for number, view in enumerate(self._views):
            for key, value in view.labels.items():
                found.setdefault(key, Values(len(self._views))).nodes.setdefault(value, []).append(number)
        return found

    @cached_property
    def _tainted(self) -> Mapping[tuple[Taint, ...], list[int]]:
        """The nodes that have taints, by all of these."""
        found: dict[tuple[Taint, ...], list[int]] = {}
        for number, view in enumerate(self._views):
            if view.taints:
                found.setdefault(tuple(view.taints), []).append(number)
        return found
