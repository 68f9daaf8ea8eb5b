"""What a job's status says of its SLA. Pure."""

from rowen.crds.common import Condition, ConditionStatus
from rowen.scheduler.decision import Outcome
from rowen.scheduler.history import History, Track
from rowen.scheduler.monitor.lease import Reason
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, Placement

NEVER_ALONE = "its throughput alone is not known, and not measured while an engine computes it"
_SLA_LOSSES = frozenset((Reason.SLA_VIOLATED, Reason.PATTERN_CHANGED))
_BELOW_SLA: tuple[ConditionStatus, str] = ("False", "BelowSLA")
_MET: tuple[ConditionStatus, str] = ("True", "Met")

Said = tuple[ConditionStatus, str, str]
"""Status, reason and message."""


def sla_met(
    outcome: Outcome, history: History, track: Track | None, policy: Policy, previous: Condition | None
) -> Said | None:
    """What `SLAMet` says; None of a job without an SLA. `previous`: what it said before."""
    job = outcome.job
    if job.sla is None:
        return None
    if outcome.loss is not None and outcome.loss.reason in _SLA_LOSSES:
        return "False", outcome.loss.reason.value, outcome.message
    if outcome.placement is None:
        final = job.finished or (previous is not None and previous.reason in _SLA_LOSSES)
        return _again(previous) if previous and final else ("Unknown", "NotPlaced", "the job has no assignment")
    if track is None or track.fraction is None:
        return ("Unknown", *_unmeasured(job, outcome.placement, history, track, policy))
    sign, over = "≥" if track.fraction >= job.sla else "<", policy.monitor_window_seconds
    message = f"measured {track.fraction:.2f} {sign} SLA {job.sla:.2f} over {over:.0f} s"
    if track.shortfall >= 0.5:
        least = "at least " if track.shortfall >= policy.remembered_seconds else ""
        limit = "" if track.shortfall >= policy.shortfall_seconds else f", {policy.shortfall_seconds:.0f} s are a miss"
        message += f"; {least}{track.shortfall:.0f} s of its throughput are missing{limit}"
    below = track.shortfall > 0.0 or track.fraction < job.sla
    return (*_keeps_sla(track, previous, policy, below=below), message)


def _again(previous: Condition) -> Said:
    return previous.status, previous.reason, previous.message


def _unmeasured(
    job: JobView, placement: Placement, history: History, track: Track | None, policy: Policy
) -> tuple[str, str]:
    """Why it is not known what part of its throughput alone a job makes."""
    if not job.counts_tokens:
        return "Unmeasured", "its pod has not reported tokens through the gate library"
    types = track.device_types if track is not None else ()
    known = history.solo(job.workload, *types) is not None if types else history.profiled(job.workload)
    if known:
        return "Measuring", f"less than {policy.monitor_window_seconds:.0f} s measured so far"
    return ("Unprofiled", NEVER_ALONE) if placement.rides else ("Profiling", "the throughput alone is not known yet")


def _keeps_sla(track: Track, previous: Condition | None, policy: Policy, *, below: bool) -> tuple[ConditionStatus, str]:
    """By what is missing of its throughput; `below`: now or of before.

    What was missed counts as met again when all of it was made up for, and a job that begins below its SLA is measured
    until one or the other is known. A scheduler that has just been started knows of nothing that is missing.
    """
    said = (previous.status, previous.reason) if previous is not None else None
    if track.shortfall >= policy.shortfall_seconds or (said == _BELOW_SLA and below):
        return _BELOW_SLA
    return _MET if said == _MET or not below else ("Unknown", "Measuring")
