"""What may be promised when withdrawals of the same pass were not taken. Pure."""

from collections.abc import Container, Iterable

from rowen.scheduler.decision import Action, Outcome
from rowen.scheduler.snapshot import JobKey, Placement


def after_withdrawals(outcomes: Iterable[Outcome], taken: Container[JobKey]) -> list[Outcome]:
    """The outcomes beside the withdrawals, of which only those of the jobs in `taken` were carried out.

    A pass gives away what it withdraws: a placement on a device whose withdrawal was refused, or had to wait, is left
    for the next one. What stays where it is, stays.
    """
    all_ = list(outcomes)
    refused = [outcome for outcome in all_ if outcome.loss is not None and outcome.job.uid not in taken]
    kept = {place for outcome in refused for place in _places(outcome.job.placement)}
    return [outcome for outcome in all_ if outcome.loss is None and not _gives(outcome, kept)]


def _gives(outcome: Outcome, places: set[tuple[str, str]]) -> bool:
    return outcome.action is Action.PLACE and not places.isdisjoint(_places(outcome.placement))


def _places(placement: Placement | None) -> list[tuple[str, str]]:
    """Its devices, each with its node."""
    return [(placement.node, id_) for id_ in placement.devices] if placement is not None else []
