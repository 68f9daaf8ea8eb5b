"""The explanation in a job's status: rounded, and steady while nothing that matters has changed."""

import re
from collections.abc import Sequence

from rowen.crds.offline_job import CandidateExplanation, Explanation
from rowen.scheduler.placement.choice import EXPLAINED
from rowen.scheduler.placement.request import Candidate, rate_told

_STEADY = 0.05
"""A factor has to move so far, an amount of memory by more than so much of itself, to be told anew."""
_AMOUNT = re.compile(r"(\d+\.\d\d)Gi")


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
        f"{word}: predicted {prediction.fraction:.2f} = idle {prediction.idle:.2f} x sharing {prediction.sharing:.2f}"
        f"{rate_told(candidate.rate)}, harvests {candidate.gain:+.2f} devices"
    )


def settled(old: Explanation | None, new: Explanation) -> Explanation:
    """The old explanation while the new one says the same in slightly different numbers."""
    return old if old is not None and _alike(old, new) else new


def _alike(old: Explanation, new: Explanation) -> bool:
    before = {(candidate.node, *candidate.devices): candidate for candidate in old.candidates}
    after = {(candidate.node, *candidate.devices): candidate for candidate in new.candidates}
    near = before.keys() == after.keys() and all(_close(before[key], after[key]) for key in after)
    first, then = _own_words(old), _own_words(new)
    # A message may name a device that is no candidate, so the digits of names count here.
    return near and _AMOUNT.sub("", first) == _AMOUNT.sub("", then) and _near(first, then)


def _own_words(told: Explanation) -> str:
    """The message without what it repeats of a candidate: which of two that are alike comes first is no news."""
    reasons = (f": {entry.node}/{'+'.join(entry.devices)}: {entry.reason}" for entry in told.candidates)
    return next((told.message.replace(reason, "", 1) for reason in reasons if reason in told.message), told.message)


def _close(old: CandidateExplanation, new: CandidateExplanation) -> bool:
    factors = ("idle", "memory", "alignment", "sharing")
    near = all(abs(getattr(old, factor) - getattr(new, factor)) < _STEADY for factor in factors)
    return near and old.chosen == new.chosen and alike(old.reason, new.reason)


def alike(old: str, new: str) -> bool:
    """Whether two texts say the same: the same letters, and nearly the same amounts of memory.

    Other figures are passed over: some, such as the age of a report, change with every pass.
    """
    return old == new or (_letters(old) == _letters(new) and _near(old, new))


def _letters(text: str) -> str:
    return "".join(letter for letter in text if letter.isalpha())


def _near(old: str, new: str) -> bool:
    before, after = ([float(amount) for amount in _AMOUNT.findall(text)] for text in (old, new))
    pairs = zip(before, after, strict=False)
    return len(before) == len(after) and all(abs(a - b) <= _STEADY * a for a, b in pairs)
