"""FlexLLM's Algorithm 1: what of a way forward has to be kept for a way back that only wants some gradients. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Operator:
    """Makes one tensor, which has the operator's name. A weight is made by none."""

    name: str
    inputs: tuple[str, ...]
    size_bytes: int
    """Of the tensor."""
    cost: float
    """Of making it again, in operations per byte of it."""


@dataclass(frozen=True)
class Joint:
    """The graph of a way forward and of its way back, each in the order of computation."""

    forward: Sequence[Operator]
    backward: Sequence[Operator]


@dataclass(frozen=True)
class Kept:
    """Names of tensors of the way forward."""

    memorized: frozenset[str]
    """They have to be kept."""
    rematerialized: frozenset[str]
    """They are needed, but made again from what is kept."""


def live(backward: Sequence[Operator], wanted: Collection[str]) -> list[Operator]:
    """Operators of the way back that the wanted gradients depend on (lines 4 to 17 of the algorithm)."""
    needed = set(wanted)
    found = []
    for operator in reversed(backward):
        if operator.name in needed:
            needed.update(operator.inputs)
            found.append(operator)
    return found[::-1]


def activations(joint: Joint, wanted: Collection[str]) -> frozenset[str]:
    """Tensors of the way forward that the live part of the way back reads (lines 18 to 22)."""
    read = {name for operator in live(joint.backward, wanted) for name in operator.inputs}
    return frozenset(operator.name for operator in joint.forward if operator.name in read)


def prune(joint: Joint, wanted: Collection[str], threshold: float, always: Collection[str] = ()) -> Kept:
    """The algorithm.

    Args:
        joint: The graph with the gradients of all weights.
        wanted: Names of the gradients that are wanted.
        threshold: A tensor is made again where that costs less, in operations per byte.
        always: What is there anyway: weights, and the inputs of the graph that are kept.
    """
    needed = activations(joint, wanted)
    memorized = set(needed)
    for operator in joint.forward:
        is_there = all(name in memorized or name in always for name in operator.inputs)
        if operator.name in memorized and is_there and operator.cost < threshold:
            memorized.remove(operator.name)
    return Kept(frozenset(memorized), needed - memorized)


def total_bytes(joint: Joint, names: Collection[str]) -> int:
    """Of tensors of the way forward."""
    return sum(operator.size_bytes for operator in joint.forward if operator.name in names)
