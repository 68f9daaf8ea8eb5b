"""What a job's pod asks of its node; reading only.

What is not understood asks for nothing: kube-scheduler and the API server have the last word.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")
VOLUME_CLAIM = "volume claim "
"""How every refusal begins that is for a volume, and no other."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """As kubectl writes it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration; an empty key or effect stands for all."""

    key: str = ""
    operator: Literal["", "Equal", "Exists"] = ""
    """Empty: Equal."""
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a term demands of a label or a field."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """For people."""
        return f"{self.key} {self.operator}" + (f" ({', '.join(self.values)})" if self.values else "")


@dataclass(frozen=True, slots=True)
class Term:
    """Requirements that hold together; without any it holds everywhere."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class VolumeLimit:
    """Where a volume of the pod can be used. Those of different names that ask for the same are equal."""

    terms: tuple[Term, ...]
    """One of them has to hold."""
    name: str = field(compare=False)
    """Of the claim and its volume, for people; it begins with `VOLUME_CLAIM`."""
    fault: str = field(default="", compare=False)
    """What keeps it from every node; empty where there are terms."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """The nodes that a pod can run on."""

    node: str = ""
    """`nodeName`; any node when it is empty."""
    selector: tuple[tuple[str, str], ...] = ()
    """Labels that the node has to have."""
    terms: tuple[Term, ...] | None = None
    """One of them has to hold; None where there is no required node affinity."""
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[VolumeLimit, ...] = ()
    """All of them have to hold."""


NODE_FIELD = "metadata.name"
"""The only field of a node that a term can name."""
_MOST_TERMS = 32
_MOST_REQUIREMENTS = 16
"""Most of a term, of its labels and its fields each."""
_MOST_VALUES = 256
_MOST_TOLERATIONS = 64
_MOST_LABELS = 64
_TOLERATES_ALL = Toleration(operator="Exists")
_TOLERATION, _REQUIREMENT = TypeAdapter(Toleration), TypeAdapter(Requirement)


def constraints_of(template: Mapping[str, Any] | None) -> Constraints:
    """The constraints in a PodTemplateSpec; none without one."""
    spec = _mapping(_mapping(template).get("spec"))
    affinity = _mapping(_mapping(spec.get("affinity")).get("nodeAffinity"))
    node, selector = spec.get("nodeName"), _mapping(spec.get("nodeSelector"))
    return Constraints(
        node=node if isinstance(node, str) else "",
        selector=tuple(
            sorted((key, value) for key, value in selector.items() if isinstance(value, str))[:_MOST_LABELS]
        ),
        terms=terms_of(affinity.get("requiredDuringSchedulingIgnoredDuringExecution")),
        tolerations=_tolerations(_entries(spec.get("tolerations"))),
    )


def _tolerations(entries: list[Any]) -> tuple[Toleration, ...]:
    """Too many are not read: one of them may tolerate any taint."""
    if len(entries) > _MOST_TOLERATIONS:
        return (_TOLERATES_ALL,)
    return tuple(_read(_TOLERATION, raw) or _TOLERATES_ALL for raw in entries)


def terms_of(required: object) -> tuple[Term, ...] | None:
    """The terms of a NodeSelector, without the empty ones: those hold nowhere. Of too many, one may hold anywhere."""
    terms = _entries(_mapping(required).get("nodeSelectorTerms"))
    if len(terms) > _MOST_TERMS:
        return None
    return tuple(_term(raw) for raw in terms if not _empty(raw)) if terms else None


def _empty(term: object) -> bool:
    return isinstance(term, dict) and not term.get("matchExpressions") and not term.get("matchFields")


def _term(raw: object) -> Term:
    term = _mapping(raw)
    fields = _requirements(term.get("matchFields"))
    return Term(
        _requirements(term.get("matchExpressions")), tuple(field for field in fields if field.key == NODE_FIELD)
    )


def _requirements(raw: object) -> tuple[Requirement, ...]:
    found = (_read(_REQUIREMENT, entry) for entry in _entries(raw)[:_MOST_REQUIREMENTS])
    return tuple(entry for entry in found if entry and _right_count(entry))


def _right_count(requirement: Requirement) -> bool:
    """Whether it has as many values as its operator takes."""
    match requirement.operator:
        case "In" | "NotIn":
            return 0 < len(requirement.values) <= _MOST_VALUES
        case "Gt" | "Lt":
            return len(requirement.values) == 1
        case "Exists" | "DoesNotExist":
            return not requirement.values


def _read(adapter: TypeAdapter[T], raw: object) -> T | None:
    """The value; None for one that is not understood. A field that is null counts as absent."""
    if not isinstance(raw, dict):
        return None
    try:
        return adapter.validate_python({key: value for key, value in raw.items() if value is not None})
    except ValidationError:
        return None


def _mapping(raw: object) -> Mapping[str, Any]:
    return raw if isinstance(raw, dict) else {}


def _entries(raw: object) -> list[Any]:
    """The entries of a list; anything else is one entry that will not be understood."""
    if raw is None:
        return []
    return raw if isinstance(raw, list) else [None]
