"""Where jobs lie that others want to be spread over, or kept apart from, while a pass decides.

Only jobs of Rowen are counted, by their assignments. Rowen pins a job's pod to its node, so that kube-scheduler sees
one node alone and finds every spread even: the spreading that a template asks for is Rowen's to keep.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rowen.scheduler.placement.constraints import Constraints
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.selection import BySelector, Mark, mark_of, marks_of, selects
from rowen.scheduler.placement.spread_rules import SpreadRule
from rowen.scheduler.snapshot import JobKey, JobView

_KEPT = 64
"""So many answers are kept: each may name every node."""


@dataclass(frozen=True, slots=True)
class _Domains:
    """The open nodes on which a pod can run, and that could hold its job if they were empty, by a label's value."""

    values: list[str]
    nodes: list[list[str]]
    """Of each value."""
    without: list[str]
    """Nodes that have no such label."""
    at: dict[str, int] = field(init=False)
    """Where a value stands."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", {value: place for place, value in enumerate(self.values)})


@dataclass(frozen=True, slots=True)
class _Tally:
    """How many of those that a selector means are in each domain."""

    key: str
    domains: _Domains
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Aloof:
    """Those that keep others away by the same rule."""

    number: int
    key: str
    at: dict[str, dict[JobKey, str]] = field(default_factory=dict)
    """Who is where, with his name, by the label's value."""


class Spreading:
    """The places of all jobs: a selector may mean those without labels too.

    A pass may have thousands of jobs, each with a rule of its own: whom a rule means is looked up by a label.
    """

    def __init__(self, fleet: Fleet, standing: Iterable[tuple[JobView, str]]) -> None:
        self._fleet = fleet
        self._places: dict[JobKey, tuple[JobView, str]] = {}
        self._marked: dict[tuple[str, Mark], list[tuple[JobView, str]]] = {}
        """The same by namespace and label."""
        self._aloof: dict[Hashable, _Aloof] = {}
        self._aloof_from: BySelector[_Aloof] = BySelector()
        self._barred: dict[Hashable, dict[str, str]] = {}
        self._holders: dict[tuple[int, int], bytes] = {}
        self._domains: dict[tuple[Constraints, str, frozenset[str], bytes], _Domains] = {}
        self._tallies: dict[Hashable, _Tally] = {}
        self._tallied: BySelector[_Tally] = BySelector()
        for job, node in standing:
            self.add(job, node)

    def add(self, job: JobView, node: str) -> None:
        """Takes a job's place into account."""
        self._barred.clear()
        self._places[job.uid] = job, node
        for mark in marks_of(job.labels):
            self._marked.setdefault((job.namespace, mark), []).append((job, node))
        for rule in job.spread:
            if rule.apart:
                self._keep_away(job, rule, self._value(node, rule.key))
        for tally in self._tallied.meaning(job):
            self._enter(tally, node, 1)

    def _keep_away(self, job: JobView, rule: SpreadRule, value: str | None) -> None:
        # Where the label is missing, nobody else is at the same place.
        if value is None:
            return
        name = job.namespace, rule.selector, rule.key
        if name not in self._aloof:
            self._aloof[name] = _Aloof(len(self._aloof), rule.key)
            self._aloof_from.put(job.namespace, rule.selector, self._aloof[name])
        self._aloof[name].at.setdefault(value, {})[job.uid] = job.label

    def gist(self, job: JobView, *, softly: bool) -> Hashable:
        """What decides whom the rules exclude: it changes with each place that is taken.

        Jobs of one template may ask for different memory: what could hold one is no domain of the other.
        """
        own = job.uid if job.uid in self._places else None
        means = tuple(selects(rule.selector, dict(job.labels)) for rule in job.spread)
        meant = tuple(aloof.number for aloof in self._aloof_from.meaning(job))
        able = b"" if all(rule.apart for rule in job.spread) else self._able(job)
        return job.namespace, job.spread, job.constraints, softly, own, means, meant, able, len(self._places)

    def barred(self, job: JobView, *, softly: bool) -> Mapping[str, str]:
        """The nodes that the rules exclude for it, and why; `softly`: those too that only are to be avoided."""
        if not job.spread and not self._aloof:
            return {}
        key = self.gist(job, softly=softly)
        if key not in self._barred:
            if len(self._barred) >= _KEPT:
                self._barred.clear()
            self._barred[key] = self._excluded(job, softly=softly)
        return self._barred[key]

    def _excluded(self, job: JobView, *, softly: bool) -> dict[str, str]:
        """Its own rules come before those of others."""
        found = self._kept_away(job)
        for rule in job.spread:
            if rule.must or softly:
                tally, counts = self._counted(job, rule)
                found |= _kept_apart(rule, tally, counts) if rule.apart else _uneven(rule, tally, counts, job)
        return found

    def _kept_away(self, job: JobView) -> dict[str, str]:
        """Where others are that keep apart from it."""
        found: dict[str, str] = {}
        for aloof in self._aloof_from.meaning(job):
            domains = self._domains_of(job.constraints, aloof.key)
            for value, there in aloof.at.items():
                at, other = domains.at.get(value), next((name for uid, name in there.items() if uid != job.uid), None)
                if at is not None and other is not None:
                    told = f"podAntiAffinity over {aloof.key} of {other}: it is there already"
                    found |= dict.fromkeys(domains.nodes[at], told)
        return found

    def _counted(self, job: JobView, rule: SpreadRule) -> tuple[_Tally, NDArray[np.int64]]:
        """How many of those that the rule means are where; the job itself is not among them."""
        shape = (frozenset[str](), b"") if rule.apart else (_needed(job), self._able(job))
        where = job.constraints, rule.key, *shape
        key = job.namespace, rule.selector, where
        if key not in self._tallies:
            self._tallies[key] = self._tally(job, rule, self._domains_of(*where))
        tally = self._tallies[key]
        if job.uid not in self._places or not selects(rule.selector, dict(job.labels)):
            return tally, tally.counts
        without = _Tally(tally.key, tally.domains, tally.counts.copy())
        self._enter(without, self._places[job.uid][1], -1)
        return tally, without.counts

    def _tally(self, job: JobView, rule: SpreadRule, domains: _Domains) -> _Tally:
        tally = _Tally(rule.key, domains, np.zeros(len(domains.values), np.int64))
        for other, node in self._marked.get((job.namespace, mark_of(rule.selector)), ()):
            if selects(rule.selector, dict(other.labels)):
                self._enter(tally, node, 1)
        self._tallied.put(job.namespace, rule.selector, tally)
        return tally

    def _enter(self, tally: _Tally, node: str, count: int) -> None:
        value = self._value(node, tally.key)
        at = None if value is None else tally.domains.at.get(value)
        if at is not None:
            tally.counts[at] += count

    def _value(self, node: str, label: str) -> str | None:
        """The node's label, which may be empty; also of one that is not open, since its jobs are still there."""
        number = self._fleet.number.get(node)
        return None if number is None else self._fleet.views[number].labels.get(label)

    def _able(self, job: JobView) -> bytes:
        """A 1 for each node that could hold the job if it were empty.

        Jobs may have thousands of different amounts of memory, and yet few different nodes that could hold them.
        """
        asked = job.devices, job.memory
        if asked not in self._holders:
            self._holders[asked] = self._fleet.columns.holders(*asked).tobytes()
        return self._holders[asked]

    def _domains_of(
        self, constraints: Constraints, label: str, needed: frozenset[str] = frozenset(), able: bytes = b""
    ) -> _Domains:
        """By the values of a label, of nodes that have all the labels that are `needed`, and are `able` where given."""
        key = constraints, label, needed, able
        if key not in self._domains:
            found: dict[str, list[str]] = {}
            without: list[str] = []
            for number in sorted(self._fleet.eligible(constraints)):
                view = self._fleet.views[number]
                if able and not able[number]:
                    continue
                if label not in view.labels:
                    without.append(view.name)
                elif view.labels.keys() >= needed:
                    found.setdefault(view.labels[label], []).append(view.name)
            self._domains[key] = _Domains(list(found), list(found.values()), without)
        return self._domains[key]


def _needed(job: JobView) -> frozenset[str]:
    """Labels that a node has to have for its spread: one that lacks that of one rule is no place for the others."""
    return frozenset(rule.key for rule in job.spread if rule.must and not rule.apart)


def _uneven(rule: SpreadRule, tally: _Tally, counts: NDArray[np.int64], job: JobView) -> dict[str, str]:
    """Where one more would be more above the fewest than may be."""
    domains = tally.domains
    found = dict.fromkeys(domains.without, f"spread over {rule.key}: the node has no such label")
    if not domains.values:
        return found
    enough = len(domains.values) >= rule.domains
    least = int(counts.min()) if enough else 0
    few = f"{domains.values[int(counts.argmin())]} has {least}" if enough else f"minDomains is {rule.domains}"
    full = counts + selects(rule.selector, dict(job.labels)) - least > rule.most
    for count in np.unique(counts[full]).tolist():
        told = f"spread over {rule.key} with maxSkew {rule.most}: {count} like it there, {few}"
        found |= dict.fromkeys(_nodes(domains, full & (counts == count)), told)
    return found


def _kept_apart(rule: SpreadRule, tally: _Tally, counts: NDArray[np.int64]) -> dict[str, str]:
    """Where one is that it keeps apart from."""
    return dict.fromkeys(_nodes(tally.domains, counts > 0), f"podAntiAffinity over {rule.key}: such a job is there")


def _nodes(domains: _Domains, those: NDArray[np.bool_]) -> list[str]:
    return [name for at in np.flatnonzero(those).tolist() for name in domains.nodes[at]]
