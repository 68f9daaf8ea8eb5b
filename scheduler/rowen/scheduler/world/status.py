"""A job's status as the scheduler wants it, and whether it is worth a write. Pure."""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, replace
from typing import Any

from rowen.crds import names
from rowen.crds.common import Condition, ConditionStatus, find_condition, set_condition
from rowen.crds.job.offline_job_status import Assignment, Explanation, Lease, OfflineJobStatus, Throughput
from rowen.crds.text.digits import significant
from rowen.kube.timestamps import rfc3339
from rowen.scheduler.decision import Action, Outcome
from rowen.scheduler.history import History, Track
from rowen.scheduler.monitor.lease import Reason
from rowen.scheduler.policy import Policy
from rowen.scheduler.serve.explanation import alike, explain, settled
from rowen.scheduler.serve.sight import Sight
from rowen.scheduler.snapshot import JobView, Placement
from rowen.scheduler.world.sla_met import NEVER_ALONE, sla_met

CONDITIONS = ("Admitted", "Placed", "SLAMet")
UNREADABLE = "Unreadable"
QUIET_SECONDS = 10.0
"""Least time between two writes that only refresh numbers."""
_STICKY = frozenset(reason.value for reason in Reason) - {Reason.SUSPENDED, Reason.FINISHED}
_STEADY = 0.05
_MOST_LETTERS = 4096
"""As many as the API takes of an explanation's message."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of the status that the scheduler owns."""

    conditions: tuple[Condition, ...]
    assignment: Assignment | None
    throughput: Throughput | None
    explanation: Explanation | None
    evictions: int | None

    def to_wire(self) -> dict[str, Any]:
        """The status subresource's content for server-side apply."""
        wire: dict[str, Any] = {"conditions": [condition.to_wire() for condition in self.conditions]}
        for name in ("assignment", "throughput", "explanation"):
            value = getattr(self, name)
            if value is not None:
                wire[name] = value.to_wire()
        if self.evictions is not None:
            wire["evictions"] = self.evictions
        return wire


def manifest(job: JobView, wanted: Wanted) -> dict[str, Any]:
    """What is applied. It is refused for a new job of the same name, and for a job that has changed since."""
    metadata = {"name": job.name, "namespace": job.namespace, "uid": job.uid, "resourceVersion": job.version}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "OfflineJob",
        "metadata": metadata,
        "status": wanted.to_wire(),
    }


def owned(status: OfflineJobStatus) -> Wanted:
    """What the scheduler owns of a status."""
    found = (find_condition(status.conditions, type_) for type_ in CONDITIONS)
    conditions = tuple(condition for condition in found if condition is not None)
    return Wanted(conditions, status.assignment, status.throughput, status.explanation, status.evictions)


def wanted(outcome: Outcome, labels: Collection[str], history: History, now: float, policy: Policy) -> Wanted:
    """The status that the outcome asks for.

    Who may read the job reads its status, so it names nothing of other namespaces; `labels` as `Sight.words`.
    """
    job, placement = outcome.job, outcome.placement
    sight = Sight(frozenset((job.namespace,)))

    def words(text: str) -> str:
        return sight.words(text, labels)

    # It may repeat what a template says, which nobody has checked: one that is too long would end the pass.
    outcome = replace(outcome, message=words(outcome.message)[:_MOST_LETTERS])
    track = _track(history, job, placement)
    assignment = _assignment(placement, job.status.assignment) if placement else None
    stamp = rfc3339(now)
    told = (_admitted(outcome, history), _placed(outcome), _sla_met(outcome, history, track, policy))
    conditions = tuple(
        set_condition(job.status.conditions, type_, status, reason, message, generation=job.generation, now=stamp)
        for type_, status, reason, message in filter(None, told)
    )
    withdrawn = outcome.loss is not None and outcome.loss.withdrawn
    evictions = (job.status.evictions or 0) + 1 if withdrawn else job.status.evictions
    throughput = _throughput(outcome, history, track)
    explanation = _explanation(outcome, words)
    return _steady(Wanted(conditions, assignment, throughput, explanation, evictions), owned(job.status))


def worth_writing(new: Wanted, old: Wanted, quiet_for: float) -> bool:
    """Whether to write now. `quiet_for`: seconds since the last write of this job."""
    if _facts(new) != _facts(old):
        return True
    told = (new.throughput, new.explanation, _messages(new)) != (old.throughput, old.explanation, _messages(old))
    return quiet_for >= QUIET_SECONDS and told


def gist(status: Wanted) -> Hashable:
    """What a write says, without times, wording and figures, and without the id, which is new with every attempt."""
    held = status.assignment
    conditions = tuple((condition.type, condition.status, condition.reason) for condition in status.conditions)
    return conditions, (held.node, tuple(held.devices)) if held else None, status.evictions


Told = tuple[str, ConditionStatus, str, str]
"""Type, status, reason and message of a condition."""


def _track(history: History, job: JobView, placement: Placement | None) -> Track | None:
    track = history.tracks.get(job.uid)
    return track if track and placement and track.assignment == placement.id else None


def _previous(job: JobView, type_: str) -> Told | None:
    found = find_condition(job.status.conditions, type_)
    return (found.type, found.status, found.reason, found.message) if found else None


def _admitted(outcome: Outcome, history: History) -> Told | None:
    job = outcome.job
    if job.finished:
        return _previous(job, "Admitted")
    if job.unreadable:
        return "Admitted", "False", UNREADABLE, outcome.message
    if job.suspended:
        return "Admitted", "False", "Suspended", "spec.suspend is set"
    if not job.counts_tokens and not history.profiled(job.workload):
        return "Admitted", "True", "Admitted", "in the queue"
    if history.profiled(job.workload):
        return "Admitted", "True", "Admitted", "in the queue; the throughput of its workload class alone is known"
    if outcome.placement is not None and outcome.placement.rides:
        return "Admitted", "True", "Admitted", f"in the queue; {NEVER_ALONE}"
    return "Admitted", "True", "Profiling", "in the queue; its throughput alone is measured once it runs by itself"


def _placed(outcome: Outcome) -> Told:
    job = outcome.job
    if outcome.placement is not None:
        return "Placed", "True", "Placed", outcome.message
    if outcome.loss is not None:
        return "Placed", "False", outcome.loss.reason.value, outcome.message
    if job.unreadable:
        return "Placed", "False", UNREADABLE, outcome.message
    if outcome.action is Action.HOLD:
        return "Placed", "False", "Finished" if job.finished else "Suspended", outcome.message
    previous = _previous(job, "Placed")
    if previous is not None and previous[2] in _STICKY:
        return previous
    return "Placed", "False", "Waiting", outcome.message


def _sla_met(outcome: Outcome, history: History, track: Track | None, policy: Policy) -> Told | None:
    previous = find_condition(outcome.job.status.conditions, "SLAMet")
    said = sla_met(outcome, history, track, policy, previous)
    return ("SLAMet", *said) if said is not None else None


def _assignment(placement: Placement, before: Assignment | None) -> Assignment:
    """Its renewals are in the node's Lease: the status keeps what it said when the assignment was made."""
    same = before is not None and before.id == placement.id
    renewed = before.lease.renew_time if before is not None and same else None
    return Assignment(
        id=placement.id,
        node=placement.node,
        devices=list(placement.devices),
        predicted_fraction=round(placement.predicted, 3),
        tenants=placement.tenants,
        mode=placement.mode,
        time=rfc3339(placement.time, "microseconds"),
        lease=Lease(
            duration_seconds=round(placement.duration),
            renew_time=renewed or rfc3339(placement.renewed, "microseconds"),
        ),
    )


def _throughput(outcome: Outcome, history: History, track: Track | None) -> Throughput | None:
    """Absent while the job has no place; a finished job keeps what was measured last."""
    if outcome.job.finished:
        return outcome.job.status.throughput
    if track is None:
        return None
    solo = history.solo(track.workload, *track.device_types)
    now = outcome.prediction
    predicted = history.predicted(track.workload, now, *track.device_types) if now is not None else None
    return Throughput(
        solo_tokens_per_second=_rounded(solo),
        predicted_tokens_per_second=_rounded(predicted),
        measured_tokens_per_second=_rounded(track.tokens_per_second),
        # Of one that makes nothing the track says 0, whatever it makes alone.
        measured_fraction=_rounded(track.fraction) if solo is not None else None,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else significant(value, 3)


def _explanation(outcome: Outcome, words: Callable[[str], str]) -> Explanation | None:
    if outcome.action is Action.KEEP or outcome.job.finished:
        return outcome.job.status.explanation
    return explain(outcome.message, outcome.candidates, words, chosen=outcome.chosen)


def _steady(new: Wanted, old: Wanted) -> Wanted:
    """With the old wording and figures where nothing that matters has moved."""
    explanation = settled(old.explanation, new.explanation) if new.explanation else None
    throughput = old.throughput if _near(new.throughput, old.throughput) else new.throughput
    calm = explanation == old.explanation and throughput == old.throughput
    told = tuple(_retold(condition, new.explanation, explanation) for condition in new.conditions)
    conditions = tuple(_calm(condition, old.conditions) if calm else condition for condition in told)
    return replace(new, conditions=conditions, throughput=throughput, explanation=explanation)


def _retold(condition: Condition, new: Explanation | None, kept: Explanation | None) -> Condition:
    """With the message of the explanation that is kept where it has that of the new one."""
    if new is None or kept is None or condition.message != new.message:
        return condition
    return condition.model_copy(update={"message": kept.message})


def _calm(new: Condition, before: tuple[Condition, ...]) -> Condition:
    """The old message while only figures in it differ, and no amount of memory by much."""
    old = find_condition(before, new.type)
    if old is None or (old.status, old.reason) != (new.status, new.reason) or not alike(old.message, new.message):
        return new
    return new.model_copy(update={"message": old.message})


def _near(new: Throughput | None, old: Throughput | None) -> bool:
    if new is None or old is None:
        return new == old
    pairs = [(getattr(new, name), getattr(old, name)) for name in Throughput.model_fields]
    return all(a == b or (a is not None and b is not None and abs(a - b) <= _STEADY * abs(b)) for a, b in pairs)


def _facts(status: Wanted) -> object:
    """What is written without delay when it changes."""
    held = status.assignment
    return (
        [(c.type, c.status, c.reason, c.observed_generation) for c in status.conditions],
        (held.id, held.node, held.devices, held.lease.duration_seconds) if held else None,
        status.evictions,
    )


def _messages(status: Wanted) -> list[str]:
    return [condition.message for condition in status.conditions]
