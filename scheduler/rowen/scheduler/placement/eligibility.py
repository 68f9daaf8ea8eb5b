"""Whether a pod can run on a node, by the rules of kube-scheduler. Pure."""

import re
from collections.abc import Iterator, Sequence

from rowen.crds.text.clip import clipped
from rowen.scheduler.placement.constraints import Constraints, Requirement, Taint, Term, Toleration, VolumeLimit
from rowen.scheduler.snapshot import NodeView

_MOST_LETTERS = 512
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")
_LIMIT = 2**63


def admits(node: NodeView, constraints: Constraints) -> bool:
    """Whether a pod with these constraints can run on the node."""
    return (
        constraints.node in ("", node.name)
        and all(node.labels.get(key) == value for key, value in constraints.selector)
        and untolerated(node.taints, constraints) is None
        and (constraints.terms is None or _meets(node, constraints.terms))
        and all(_meets(node, limit.terms) for limit in constraints.volumes)
    )


def exclusion(node: NodeView, constraints: Constraints) -> str:
    """Why a pod with these constraints cannot run on the node; empty when it can."""
    if admits(node, constraints):
        return ""
    reason = (
        _other_node(node, constraints)
        or _taint(node, constraints)
        or _selector(node, constraints)
        or _affinity(node, constraints.terms)
        or _volume(node, constraints)
    )
    return clipped(reason, _MOST_LETTERS)


def _other_node(node: NodeView, constraints: Constraints) -> str:
    other = constraints.node and constraints.node != node.name
    return f"nodeName {constraints.node}: the node is {node.name}" if other else ""


def _taint(node: NodeView, constraints: Constraints) -> str:
    taint = untolerated(node.taints, constraints)
    return f"taint {taint} is not tolerated" if taint else ""


def untolerated(taints: Sequence[Taint], constraints: Constraints) -> Taint | None:
    """The first of a node's taints that keeps a pod with these constraints away."""
    # A pod that names its node does not pass kube-scheduler: the kubelet asks for NoExecute alone.
    effects = ("NoExecute",) if constraints.node else ("NoSchedule", "NoExecute")
    for taint in taints:
        if taint.effect in effects and not any(_tolerates(entry, taint) for entry in constraints.tolerations):
            return taint
    return None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def _selector(node: NodeView, constraints: Constraints) -> str:
    for key, value in constraints.selector:
        if node.labels.get(key) != value:
            return f"nodeSelector {key}={value}: {_label(node, key)}"
    return ""


def _meets(node: NodeView, terms: Sequence[Term]) -> bool:
    return any(next(_failing(node, term), None) is None for term in terms)


def _affinity(node: NodeView, terms: Sequence[Term] | None) -> str:
    if terms is None or _meets(node, terms):
        return ""
    return f"node affinity {_failures(node, terms)}" if terms else "node affinity: an empty term matches no node"


def _volume(node: NodeView, constraints: Constraints) -> str:
    return _limited(node, next(limit for limit in constraints.volumes if not _meets(node, limit.terms)))


def _limited(node: NodeView, limit: VolumeLimit) -> str:
    return f"{limit.name} {limit.fault or f'can only be used on nodes with {_failures(node, limit.terms)}'}"


def _failures(node: NodeView, terms: Sequence[Term]) -> str:
    return "; ".join(_failure(node, term) for term in terms)


def _failure(node: NodeView, term: Term) -> str:
    """The first requirement that does not hold, with what the node has."""
    requirement = next(_failing(node, term))
    if requirement in term.fields:
        return f"{requirement}: the node is {node.name}"
    return f"{requirement}: {_label(node, requirement.key)}"


def _failing(node: NodeView, term: Term) -> Iterator[Requirement]:
    """The requirements that do not hold, those of labels first."""
    yield from (entry for entry in term.labels if not holds(entry, node.labels.get(entry.key)))
    yield from (entry for entry in term.fields if not holds(entry, node.name))


def holds(requirement: Requirement, value: str | None) -> bool:
    """Whether a label of that value fulfils the requirement; None is a label that is absent."""
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)


def _compares(requirement: Requirement, value: str | None) -> bool:
    have, bound = integer(value), integer(requirement.values[0])
    if have is None or bound is None:
        return False
    return have > bound if requirement.operator == "Gt" else have < bound


def integer(text: str | None) -> int | None:
    """A 64-bit integer as Go reads it; None for anything else."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_LIMIT <= number < _LIMIT else None


def _label(node: NodeView, key: str) -> str:
    return f"the node has {key}={node.labels[key]}" if key in node.labels else f"the node has no label {key}"
