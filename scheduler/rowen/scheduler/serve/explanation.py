"""The explanation in a job's status: short, rounded, and steady while nothing that matters has changed."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from rowen.crds.job.offline_job_status import CandidateExplanation, Explanation
from rowen.scheduler.model.mode import mode_of
from rowen.scheduler.placement.search.choice import EXPLAINED
from rowen.scheduler.placement.search.request import Candidate, rate_told

_STEADY = 0.05
"""A factor has to move so far, an amount of memory by more than so much of itself, to be told anew."""
_AMOUNT = re.compile(r"(\d+\.\d\d)Gi")


def explain(
    message: str, candidates: Sequence[Candidate], words: Callable[[str], str] = str, *, chosen: bool = False
) -> Explanation:
    """The candidates as a status tells them, best first. `chosen`: the job goes to the first."""
    told = entries(candidates[:EXPLAINED], words, chosen=chosen)
    return Explanation(message=message[:4096], candidates=list(told))


def entries(
    candidates: Iterable[Candidate], words: Callable[[str], str] = str, *, chosen: bool = False
) -> Iterator[CandidateExplanation]:
    """Candidates as the API tells them; `words` is what a reason goes through, `chosen`: the job goes to the first."""
    return (_entry(one, words, chosen=chosen and not at) for at, one in enumerate(candidates))


def _entry(candidate: Candidate, words: Callable[[str], str], *, chosen: bool) -> CandidateExplanation:
    prediction = candidate.prediction
    return CandidateExplanation(
        mode=mode_of(rides=candidate.rides, shares=candidate.shares),
        node=candidate.node,
        devices=list(candidate.devices),
        idle=round(prediction.idle, 3),
        memory=round(prediction.memory if prediction.fits else 0.0, 3),
        alignment=round(prediction.alignment, 3),
        sharing=round(prediction.sharing, 3),
        predicted_fraction=round(prediction.fraction, 3),
        chosen=chosen,
        reason=words(candidate.refusal or _verdict(candidate, chosen=chosen))[:1024],
    )


def _verdict(candidate: Candidate, *, chosen: bool) -> str:
    prediction = candidate.prediction
    word = "chosen" if chosen else "fits"
    return (
        f"{word}: predicted {prediction.fraction:.2f} = {candidate.product}"
        f"{rate_told(candidate.rate)}, harvests {candidate.gain:+.2f} devices"
    )


def settled(old: Explanation | None, new: Explanation) -> Explanation:
    """What the status tells: the message and the best of the new candidates.

    The old explanation stays while it says the same in slightly different numbers; of places that are alike, which
    comes first is no news.
    """
    if old is not None and (old is new or _alike(old, new)):
        return old
    return new.model_copy(update={"candidates": new.candidates[:1]})


def _alike(old: Explanation, new: Explanation) -> bool:
    first, then = _own_words(old), _own_words(new)
    # A message may name a device that is no candidate, so the digits of names count here.
    return _same_best(old, new) and _AMOUNT.sub("", first) == _AMOUNT.sub("", then) and _near(first, then)


def _same_best(old: Explanation, new: Explanation) -> bool:
    """Whether the old candidate still stands for the best: like it, and not told to be otherwise itself."""
    if not old.candidates or not new.candidates:
        return old.candidates == new.candidates
    (before, *rest), best = old.candidates, new.candidates[0]
    now = next((entry for entry in new.candidates if _place(entry) == _place(before)), None)
    if rest or not _close(before, best) or (best.chosen and now is not best):
        return False
    return now is None or _close(before, now)


def _place(candidate: CandidateExplanation) -> tuple[str, ...]:
    return candidate.node, *candidate.devices


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
