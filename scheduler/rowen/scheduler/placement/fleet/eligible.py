"""The nodes on which pods can run, for all nodes at once: what `eligibility.admits` says of each. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from rowen.scheduler.placement.constraints import Constraints, Requirement, Taint, Term
from rowen.scheduler.placement.eligibility import holds, untolerated
from rowen.scheduler.placement.fleet.columns import Flags
from rowen.scheduler.snapshot import NodeView

_KEPT = 256
"""So many constraints are remembered: every job of a tenant's may have its own."""
ByValue = Mapping[str, list[int]]


class Eligible:
    """The nodes of one pass: their views, why each is closed (empty where it is open), and their numbers by name."""

    def __init__(self, views: Sequence[NodeView], refusals: Sequence[str], number: Mapping[str, int]) -> None:
        self._views = views
        self._names: ByValue = {name: [at] for name, at in number.items()}
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
            met &= self._on(self._names.get(constraints.node, ()))
        for taints, numbers in self._tainted.items():
            if untolerated(taints, constraints) is not None:
                met[numbers] = False
        for key, value in constraints.selector:
            met &= self._on(self._labels.get(key, {}).get(value, ()))
        for terms in (constraints.terms, *(limit.terms for limit in constraints.volumes)):
            if terms is not None:
                met &= self._any(terms)
        return met

    def _any(self, terms: Iterable[Term]) -> Flags:
        found = np.zeros(len(self._views), np.bool_)
        for term in terms:
            holding = np.ones(len(self._views), np.bool_)
            for entry in term.labels:
                holding &= self._where(entry, self._labels.get(entry.key, {}))
            for entry in term.fields:
                holding &= self._where(entry, self._names)
            found |= holding
        return found

    def _where(self, requirement: Requirement, nodes: ByValue) -> Flags:
        """Where the requirement holds of what has these values on these nodes, and is absent on all others."""
        if requirement.operator in ("In", "NotIn"):
            named = self._on([number for value in requirement.values for number in nodes.get(value, ())])
            return named if requirement.operator == "In" else ~named
        fitting = [numbers for value, numbers in nodes.items() if holds(requirement, value)]
        found = self._on([number for numbers in fitting for number in numbers])
        if holds(requirement, None):
            found |= ~self._on([number for numbers in nodes.values() for number in numbers])
        return found

    def _on(self, numbers: Sequence[int]) -> Flags:
        flags = np.zeros(len(self._views), np.bool_)
        flags[list(numbers)] = True
        return flags

    @cached_property
    def _labels(self) -> Mapping[str, ByValue]:
        """The nodes by key and value of their labels."""
        found: dict[str, dict[str, list[int]]] = {}
        for number, view in enumerate(self._views):
            for key, value in view.labels.items():
                found.setdefault(key, {}).setdefault(value, []).append(number)
        return found

    @cached_property
    def _tainted(self) -> Mapping[tuple[Taint, ...], list[int]]:
        """The nodes that have taints, by all of these."""
        found: dict[tuple[Taint, ...], list[int]] = {}
        for number, view in enumerate(self._views):
            if view.taints:
                found.setdefault(tuple(view.taints), []).append(number)
        return found
