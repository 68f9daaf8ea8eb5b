"""Where jobs lie that others want to be spread over, or kept apart from, while a pass decides.

Only jobs of Rowen are counted, by their assignments. Rowen pins a job's pod to its node, so that kube-scheduler sees
one node alone and finds every spread even: the spreading that a template asks for is Rowen's to keep.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rowen.scheduler.placement.constraints import Constraints, Requirement
from rowen.scheduler.placement.eligibility import holds
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.spread_rules import Labels, SpreadRule
from rowen.scheduler.snapshot import JobKey, JobView


@dataclass(frozen=True, slots=True)
class _Domains:
    """The open nodes on which a pod can run, by a label's value."""

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

    namespace: str
    selector: tuple[Requirement, ...]
    key: str
    domains: _Domains
    counts: NDArray[np.int64]

    def means(self, job: JobView) -> bool:
        """Whether the job is one of them."""
        return job.namespace == self.namespace and _selects(self.selector, job.labels)


class Spreading:
    """The places of all jobs that have labels or keep others away."""

    def __init__(self, fleet: Fleet, standing: Iterable[tuple[JobView, str]]) -> None:
        self._fleet = fleet
        self._places: dict[JobKey, tuple[JobView, str]] = {}
        self._aloof: list[tuple[JobView, str]] = []
        """Those that keep others away."""
        self._barred: dict[Hashable, dict[str, str]] = {}
        self._domains: dict[tuple[Constraints, str], _Domains] = {}
        self._tallies: dict[Hashable, _Tally] = {}
        for job, node in standing:
            self.add(job, node)

    def add(self, job: JobView, node: str) -> None:
        """Takes a job's place into account."""
        if not job.labels and not job.spread:
            return
        self._barred.clear()
        self._places[job.uid] = job, node
        if any(rule.apart for rule in job.spread):
            self._aloof.append((job, node))
        for tally in self._tallies.values():
            self._enter(tally, job, node, 1)

    def gist(self, job: JobView, *, softly: bool) -> Hashable:
        """What decides whom the rules exclude: it changes with each place that is taken."""
        own = job.uid if job.uid in self._places else None
        return job.namespace, job.labels, job.spread, job.constraints, softly, own, len(self._places)

    def barred(self, job: JobView, *, softly: bool) -> Mapping[str, str]:
        """The nodes that the rules exclude for it, and why; `softly`: those too that only are to be avoided."""
        if not job.spread and not (job.labels and self._aloof):
            return {}
        key = self.gist(job, softly=softly)
        if key not in self._barred:
            self._barred[key] = self._excluded(job, softly=softly)
        return self._barred[key]

    def _excluded(self, job: JobView, *, softly: bool) -> dict[str, str]:
        found: dict[str, str] = {}
        for rule in job.spread:
            if rule.must or softly:
                tally, counts = self._counted(job, rule)
                found |= _kept_apart(rule, tally, counts) if rule.apart else _uneven(rule, tally, counts, job)
        for other, node in self._aloof:
            found = {**self._keeping_away(job, other, node), **found}
        return found

    def _keeping_away(self, job: JobView, other: JobView, node: str) -> Mapping[str, str]:
        """Where another one is that keeps apart from it."""
        if other.namespace != job.namespace or other.uid == job.uid:
            return {}
        found: dict[str, str] = {}
        for rule in other.spread:
            if rule.apart and _selects(rule.selector, job.labels):
                domains = self._domains_of(job, rule.key)
                at = domains.at.get(self._value(node, rule.key))
                told = f"podAntiAffinity over {rule.key} of {other.label}: it is there already"
                found |= dict.fromkeys(domains.nodes[at] if at is not None else (), told)
        return found

    def _counted(self, job: JobView, rule: SpreadRule) -> tuple[_Tally, NDArray[np.int64]]:
        """How many of those that the rule means are where; the job itself is not among them."""
        key = job.namespace, rule.selector, job.constraints, rule.key
        if key not in self._tallies:
            domains = self._domains_of(job, rule.key)
            counts = np.zeros(len(domains.values), np.int64)
            self._tallies[key] = _Tally(job.namespace, rule.selector, rule.key, domains, counts)
            for other, node in self._places.values():
                self._enter(self._tallies[key], other, node, 1)
        tally = self._tallies[key]
        if job.uid not in self._places:
            return tally, tally.counts
        without = _Tally(tally.namespace, tally.selector, tally.key, tally.domains, tally.counts.copy())
        self._enter(without, *self._places[job.uid], -1)
        return tally, without.counts

    def _enter(self, tally: _Tally, job: JobView, node: str, count: int) -> None:
        at = tally.domains.at.get(self._value(node, tally.key))
        if at is not None and tally.means(job):
            tally.counts[at] += count

    def _value(self, node: str, label: str) -> str:
        """The node's label; also of one that is not open, since its jobs are still there. Empty where it has none."""
        number = self._fleet.number.get(node)
        return "" if number is None else self._fleet.views[number].labels.get(label, "")

    def _domains_of(self, job: JobView, label: str) -> _Domains:
        key = job.constraints, label
        if key not in self._domains:
            found: dict[str, list[str]] = {}
            for number in sorted(self._fleet.eligible(job.constraints)):
                view = self._fleet.views[number]
                found.setdefault(view.labels.get(label, ""), []).append(view.name)
            without = found.pop("", [])
            self._domains[key] = _Domains(list(found), list(found.values()), without)
        return self._domains[key]


def _uneven(rule: SpreadRule, tally: _Tally, counts: NDArray[np.int64], job: JobView) -> dict[str, str]:
    """Where one more would be more above the fewest than may be."""
    domains = tally.domains
    found = dict.fromkeys(domains.without, f"spread over {rule.key}: the node has no such label")
    if not domains.values:
        return found
    enough = len(domains.values) >= rule.domains
    least = int(counts.min()) if enough else 0
    few = f"{domains.values[int(counts.argmin())]} has {least}" if enough else f"minDomains is {rule.domains}"
    full = counts + _selects(rule.selector, job.labels) - least > rule.most
    for count in np.unique(counts[full]).tolist():
        told = f"spread over {rule.key} with maxSkew {rule.most}: {count} like it there, {few}"
        found |= dict.fromkeys(_nodes(domains, full & (counts == count)), told)
    return found


def _kept_apart(rule: SpreadRule, tally: _Tally, counts: NDArray[np.int64]) -> dict[str, str]:
    """Where one is that it keeps apart from."""
    return dict.fromkeys(_nodes(tally.domains, counts > 0), f"podAntiAffinity over {rule.key}: such a job is there")


def _nodes(domains: _Domains, those: NDArray[np.bool_]) -> list[str]:
    return [name for at in np.flatnonzero(those).tolist() for name in domains.nodes[at]]


def _selects(selector: tuple[Requirement, ...], labels: Labels) -> bool:
    known = dict(labels)
    return all(holds(entry, known.get(entry.key)) for entry in selector)
