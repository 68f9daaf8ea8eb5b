"""Whom label selectors mean."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from rowen.scheduler.placement.constraints import Requirement
from rowen.scheduler.placement.eligibility import holds
from rowen.scheduler.placement.spread_rules import Labels
from rowen.scheduler.snapshot import JobView

T = TypeVar("T")
Selector = Sequence[Requirement]
Mark = tuple[str, str] | None
"""A label by which one is found; None stands for all."""


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether all that it demands holds for the labels."""
    return all(holds(entry, labels.get(entry.key)) for entry in selector)


def mark_of(selector: Selector) -> Mark:
    """A label that all have whom it means; None where it demands no single one."""
    exact = (entry for entry in selector if entry.operator == "In" and len(entry.values) == 1)
    return next(((entry.key, entry.values[0]) for entry in exact), None)


def marks_of(labels: Labels) -> tuple[Mark, ...]:
    """By which one with these labels is found."""
    return (None, *labels)


class BySelector(Generic[T]):
    """What belongs to selectors, found without a look at each: every job may have one of its own."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Mark], list[tuple[Selector, T]]] = {}

    def put(self, namespace: str, selector: Selector, what: T) -> None:
        """Enters what belongs to a selector, which means pods of that namespace."""
        self._found.setdefault((namespace, mark_of(selector)), []).append((selector, what))

    def meaning(self, job: JobView) -> Iterator[T]:
        """What belongs to those that mean the job."""
        labels = dict(job.labels)
        for mark in marks_of(job.labels):
            for selector, what in self._found.get((job.namespace, mark), ()):
                if selects(selector, labels):
                    yield what
