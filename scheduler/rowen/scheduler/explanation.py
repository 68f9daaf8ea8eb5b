"""The explanation in a job's status: rounded, and steady while nothing that matters has changed."""

from collections.abc import Sequence

from rowen.crds.offline_job import CandidateExplanation, Explanation
from rowen.scheduler.placement import EXPLAINED, Candidate

_STEADY = 0.05
"""A factor has to move so far before an explanation is written anew."""


def explain(message: str, candidates: Sequence[Candidate]) -> Explanation:
    """The candidates as the API tells them, best first."""
    told = [
        CandidateExplanation(
            node=candidate.node,
            devices=list(candidate.devices),
            idle=round(candidate.prediction.idle, 3),
            memory=round(candidate.prediction.memory, 3),
            alignment=round(candidate.prediction.alignment, 3),
            sharing=round(candidate.prediction.sharing, 3),
            predicted_fraction=round(candidate.prediction.fraction, 3),
            chosen=candidate.chosen,
            reason=(candidate.refusal or _verdict(candidate))[:1024],
        )
        for candidate in candidates[:EXPLAINED]
    ]
    return Explanation(message=message[:4096], candidates=told)


def _verdict(candidate: Candidate) -> str:
    prediction = candidate.prediction
    word = "chosen" if candidate.chosen else "fits"
    return (
        f"{word}: predicted {prediction.fraction:.2f} = idle {prediction.idle:.2f} x sharing {prediction.sharing:.2f}, "
        f"harvests {candidate.gain:+.2f} devices"
    )


def settled(old: Explanation | None, new: Explanation) -> Explanation:
    """The old explanation while the new one says the same in slightly different numbers."""
    return old if old is not None and _alike(old, new) else new


def _alike(old: Explanation, new: Explanation) -> bool:
    before = {(candidate.node, *candidate.devices): candidate for candidate in old.candidates}
    after = {(candidate.node, *candidate.devices): candidate for candidate in new.candidates}
    return before.keys() == after.keys() and all(_close(before[key], after[key]) for key in after)


def _close(old: CandidateExplanation, new: CandidateExplanation) -> bool:
    factors = ("idle", "memory", "alignment", "sharing")
    near = all(abs(getattr(old, factor) - getattr(new, factor)) < _STEADY for factor in factors)
    return near and old.chosen == new.chosen and wording(old.reason) == wording(new.reason)


def wording(text: str) -> str:
    """A text without its numbers."""
    return "".join(letter for letter in text if letter.isalpha())
