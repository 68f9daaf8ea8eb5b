"""What a job's template asks of the places of its like: spreading, and keeping apart; reading only.

What is not understood asks for nothing: kube-scheduler and the API server have the last word.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from rowen.crds.base import ReadModel
from rowen.scheduler.placement.constraints import Requirement

Labels = tuple[tuple[str, str], ...]
"""Of a pod, sorted by key."""
_MOST_LABELS = 64
_MOST_RULES = 8
_MOST_REQUIREMENTS = 16
_MOST_VALUES = 256

NOBODY = (Requirement("", "In"),)
"""The selector that is left out, or null: it means no pod, as an empty one means all."""

Key = Annotated[str, Field(max_length=317)]
"""Of a label: a prefix of 253 letters, a slash and a name of 63. Nobody has checked a template's, and it is told."""


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """How the pods that a selector means are to lie over the values of a node's label."""

    key: str
    """The label."""
    selector: tuple[Requirement, ...]
    """All have to hold for a pod's labels."""
    most: int = 1
    """`maxSkew`: how many more of them a value may have than the one with the fewest."""
    domains: int = 1
    """`minDomains`: with fewer values the fewest counts as none."""
    must: bool = True
    """False: only where there is such a place (`ScheduleAnyway`)."""
    apart: bool = False
    """Required anti-affinity: none of them may be there at all."""

    @property
    def alone(self) -> bool:
        """Whether it means nobody and has to hold: then it asks the same wherever others lie."""
        return self.must and self.selector == NOBODY


class _Expression(ReadModel):
    key: Key
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Annotated[list[str], Field(max_length=_MOST_VALUES)] | None = None


class _Selector(ReadModel):
    match_labels: Annotated[dict[str, str], Field(max_length=_MOST_LABELS)] | None = None
    match_expressions: Annotated[list[_Expression], Field(max_length=_MOST_REQUIREMENTS)] | None = None


class _Spread(ReadModel):
    topology_key: Key
    max_skew: Annotated[int, Field(ge=1)]
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: _Selector | None = None
    min_domains: Annotated[int, Field(ge=1)] | None = None
    match_label_keys: Annotated[list[str], Field(max_length=_MOST_LABELS)] | None = None


class _Apart(ReadModel):
    topology_key: Key
    label_selector: _Selector | None = None
    namespaces: list[str] | None = None
    namespace_selector: Any = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


def labels_of(template: Mapping[str, Any] | None) -> Labels:
    """The labels of the template's pods."""
    labels = _mapping(_mapping(_mapping(template).get("metadata")).get("labels"))
    found = ((key, value) for key, value in labels.items() if isinstance(value, str))
    return tuple(sorted(found)[:_MOST_LABELS])


def spread_of(template: Mapping[str, Any] | None) -> tuple[SpreadRule, ...]:
    """`topologySpreadConstraints`, and what `podAntiAffinity` requires within the job's own namespace."""
    spec, labels = _mapping(_mapping(template).get("spec")), dict(labels_of(template))
    anti = _mapping(_mapping(spec.get("affinity")).get("podAntiAffinity"))
    required = anti.get("requiredDuringSchedulingIgnoredDuringExecution")
    rules = [*_spreads(spec.get("topologySpreadConstraints"), labels), *_aparts(required)]
    return tuple(rules[:_MOST_RULES])


def _spreads(entries: object, labels: Mapping[str, str]) -> Iterator[SpreadRule]:
    for raw in entries if isinstance(entries, list) else ():
        try:
            read = _Spread.model_validate(raw)
        except ValidationError:
            continue
        own = [Requirement(key, "In", (labels[key],)) for key in read.match_label_keys or () if key in labels]
        selector = NOBODY if read.label_selector is None else (*_requirements(read.label_selector), *own)
        must = read.when_unsatisfiable == "DoNotSchedule"
        yield SpreadRule(read.topology_key, selector, read.max_skew, read.min_domains or 1, must)


def _aparts(entries: object) -> Iterator[SpreadRule]:
    for raw in entries if isinstance(entries, list) else ():
        try:
            read = _Apart.model_validate(raw)
        except ValidationError:
            continue
        elsewhere = read.namespaces or read.namespace_selector is not None
        if read.label_selector is None or elsewhere or read.match_label_keys or read.mismatch_label_keys:
            continue
        yield SpreadRule(read.topology_key, _requirements(read.label_selector), apart=True)


def _requirements(selector: _Selector) -> tuple[Requirement, ...]:
    exact = [Requirement(key, "In", (value,)) for key, value in sorted((selector.match_labels or {}).items())]
    others = [
        Requirement(entry.key, entry.operator, tuple(entry.values or ())) for entry in selector.match_expressions or ()
    ]
    return (*exact, *others)


def _mapping(raw: object) -> Mapping[str, Any]:
    return raw if isinstance(raw, dict) else {}
