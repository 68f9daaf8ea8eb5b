"""One pass: from a snapshot and the history to what shall be done with every job."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from hashlib import sha256
from itertools import groupby
from operator import attrgetter

from rowen.crds.common import find_condition
from rowen.crds.text.clip import clipped
from rowen.scheduler.history import History
from rowen.scheduler.model.mode import seatless
from rowen.scheduler.model.prediction import Prediction
from rowen.scheduler.monitor.backoff import EVERY_NODE, Backoff, BackoffKey, ahead, next_backoff
from rowen.scheduler.monitor.lease import Loss, Reason
from rowen.scheduler.monitor.losses import overdue, taken_away, violations
from rowen.scheduler.placement.census import build_fleet
from rowen.scheduler.placement.fleet.claims import Claim
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.joint.plan import NO_PLAN, Joint, Plan
from rowen.scheduler.placement.memory_words import above_all_devices, gib, short_now
from rowen.scheduler.placement.refused import refused
from rowen.scheduler.placement.remedy import Remedies, remedies
from rowen.scheduler.placement.search.choice import claimed
from rowen.scheduler.placement.search.places import Places, Settled
from rowen.scheduler.placement.search.request import Candidate, Choice, Request, place_told, rate_told
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobKey, JobView, Placement, Snapshot

_MOST_WORDS = 200
"""Characters of what the API server says of a refusal."""
_BACKED_OFF = frozenset(
    {
        Reason.SLA_VIOLATED, Reason.PATTERN_CHANGED, Reason.MADE_WAY,
        Reason.NODE_LOST, Reason.DEVICE_GONE, Reason.NOT_STARTED,
    }
)  # fmt: skip
"""Losses that may come back at once, so the node has to wait; the others are somebody's wish."""


class Action(StrEnum):
    """What happens to a job."""

    KEEP = "keep"
    PLACE = "place"
    REVOKE = "revoke"
    WAIT = "wait"
    HOLD = "hold"
    """Not in the queue: suspended, finished or being deleted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happens to one job, and why."""

    job: JobView
    action: Action
    message: str
    placement: Placement | None = None
    loss: Loss | None = None
    candidates: tuple[Candidate, ...] = ()
    prediction: Prediction | None = None
    """As of now, on the devices that it holds."""
    not_seated: str = ""
    """Of one that is placed beside an engine: why not in one, where an engine of its namespace takes jobs in."""

    @property
    def fraction(self) -> float | None:
        """Predicted now, of its throughput alone."""
        return None if self.prediction is None else self.prediction.fraction

    @property
    def chosen(self) -> bool:
        """Whether it goes to the first of the candidates."""
        return self.action is Action.PLACE


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass decided."""

    outcomes: tuple[Outcome, ...] = ()
    backoffs: Mapping[BackoffKey, Backoff] = field(default_factory=dict)
    """All back-offs, with those that this pass began."""
    waited_for: frozenset[str] = frozenset()
    """Overdue nodes that are not taken for lost yet, since most nodes are silent at once."""

    def outcome(self, uid: JobKey) -> Outcome | None:
        """What happens to the job of that UID."""
        return next((outcome for outcome in self.outcomes if outcome.job.uid == uid), None)


def decide(snapshot: Snapshot, history: History, now: float, policy: Policy) -> Decision:
    """Decides on every job: first what stays, then who of the waiting goes where."""
    # 1. Withdraw what its user, its node, its device or its owner has taken away.
    lost_nodes, waited_for = overdue(snapshot, now, policy)
    losses = taken_away(snapshot, history, lost_nodes, now, policy)
    # 2. Enter what stays, and every pod that still holds slots, into the fleet.
    fleet, held = build_fleet(snapshot, history, losses, now, policy)
    # 3. Place the waiting jobs in order of priority; each sees what the ones before it took.
    backoffs, waits = dict(history.backoffs), ahead(history.backoffs, now)
    outcomes: list[Outcome] = []
    waiting: list[JobView] = []
    standing = ((snapshot.jobs[uid], placement.node) for uid, (placement, _) in held.items())
    places = Places(fleet, history, policy, standing)
    queue = [job for job in snapshot.jobs.values() if job.uid not in held and not _told_to_be_over(job)]
    for job in sorted(queue, key=lambda job: job.order):
        lost = losses.get(job.uid)
        if lost is not None:
            outcomes.append(_revoke(job, lost, backoffs, now, policy))
        elif job.finished or job.suspended or job.deleting:
            outcomes.append(_hold(job))
        elif job.unreadable:
            outcomes.append(Outcome(job, Action.WAIT, f"the scheduler does not understand it: {job.unreadable}"))
        elif job.placement is None:
            waiting.append(job)
    outcomes += _place_all(waiting, places, waits, now)
    # 4. Who falls short of his SLA goes where that helps: only to what those who wait have left.
    elsewhere = partial(_elsewhere, places=places, waits=waits, now=now)
    short = violations(snapshot, held, history, now, policy)
    found = remedies(short, snapshot, held, history, now, fleet, elsewhere)
    outcomes += [_revoke(snapshot.jobs[uid], lost, backoffs, now, policy) for uid, lost in found.losses.items()]
    # 5. What stays is told last, when every newcomer has taken its share.
    for uid, (placement, claim) in held.items():
        if uid not in found.losses:
            told = _silent_told(placement, waited_for) + _short_told(uid, placement, found, fleet)
            outcomes.append(_keep(snapshot.jobs[uid], placement, fleet, claim, history, told))
    return Decision(tuple(outcomes), backoffs, waited_for)


def _revoke(job: JobView, lost: Loss, backoffs: dict[BackoffKey, Backoff], now: float, policy: Policy) -> Outcome:
    key = backoff_key(job, lost)
    if key is not None:
        backoffs[key] = next_backoff(backoffs.get(key), lost.reason, key[1], now, policy)
    return Outcome(job, Action.REVOKE, lost.message, loss=lost)


def backoff_key(job: JobView, lost: Loss | None) -> BackoffKey | None:
    """What the job keeps away from after the loss; None where it may come back at once, or has lost nothing."""
    if job.placement is None or lost is None or lost.reason not in _BACKED_OFF:
        return None
    return job.uid, EVERY_NODE if lost.everywhere else job.placement.node


def not_taken(history: History, refusals: Mapping[JobKey, str], now: float, policy: Policy) -> History:
    """After the API server has refused assignments: else each pass would plan the same, and keep their places free.

    `refusals` are its own words, by job.
    """
    new = {(job, EVERY_NODE): _refusal_told(words) for job, words in refusals.items()}
    before = history.backoffs
    return history.backed_off(
        {key: next_backoff(before.get(key), reason, EVERY_NODE, now, policy) for key, reason in new.items()}
    )


def _refusal_told(words: str) -> str:
    told = clipped(" ".join(words.split()), _MOST_WORDS)
    return f"AssignmentRefused: {told}" if told else "AssignmentRefused"


def _told_to_be_over(job: JobView) -> bool:
    """Whether the job has finished and its status says so: nothing is left to decide."""
    if not job.finished or job.placement is not None:
        return False
    told = find_condition(job.status.conditions, "Placed")
    return told is not None and (told.reason, told.observed_generation) == ("Finished", job.generation)


def _hold(job: JobView) -> Outcome:
    if job.finished:
        return Outcome(job, Action.HOLD, "the job has finished")
    return Outcome(job, Action.HOLD, "the job is being deleted" if job.deleting else "spec.suspend is set")


def _keep(job: JobView, placement: Placement, fleet: Fleet, claim: Claim, history: History, told: str) -> Outcome:
    placement = _as_shared(placement, fleet)
    place = place_told(placement.node, placement.devices, rides=placement.rides, shares=placement.shares)
    message = f"placed on {place}: predicted {placement.predicted:.2f} of its throughput alone"
    standing = fleet.standing(claim)
    before, track = find_condition(job.status.conditions, "Placed"), history.tracks.get(job.uid)
    # What it was measured to make meanwhile says more than what is known of its class.
    made = track.speed if track is not None and track.assignment == placement.id else None
    short = short_now(max(standing.memory, made or 0.0), before.message if before else "")
    message += ("" if placement.rides else _memory_told(job, fleet)) + short + told
    return Outcome(job, Action.KEEP, message, placement=placement, prediction=standing)


def _as_shared(placement: Placement, fleet: Fleet) -> Placement:
    """With whether its device is shared as the service says it now; as it was where that is not known."""
    number = fleet.number.get(placement.node)
    views = [fleet.views[number].device(name) for name in placement.devices] if number is not None else [None]
    known = [view for view in views if view is not None]
    if placement.rides or len(known) < len(views):
        return placement
    return replace(placement, shares=len(known) == 1 and known[0].shares)


def _silent_told(placement: Placement, waited_for: Collection[str]) -> str:
    return "; the node is silent, as most nodes are, so it is waited for" if placement.node in waited_for else ""


def _short_told(uid: JobKey, placement: Placement, found: Remedies, fleet: Fleet) -> str:
    """Why a job stays that falls short of its SLA."""
    if uid not in found.stays:
        return ""
    choice = found.stays[uid]
    if choice is None:
        return "; it falls short of its SLA and stays: a neighbour makes way"
    others = (f"{other.place}: {other.refusal}" for other in choice.candidates if other.node != placement.node)
    # A better device of its own node is no choice: after an eviction it keeps away from the whole node.
    none = "there is no other node" if len(fleet.views) == 1 else "the likeliest places are all on its own"
    return f"; it falls short of its SLA and stays: no place on another node is better: {next(others, none)}"


def _place_all(
    waiting: Iterable[JobView], places: Places, waits: Mapping[JobKey, Mapping[str, Backoff]], now: float
) -> Iterator[Outcome]:
    """What becomes of jobs in the queue's order; few of one priority may choose together, unless one may ride."""
    joint = Joint(places.fleet, places.policy, now)

    def request(job: JobView) -> Request:
        return places.request(job, waits.get(job.uid, {}))

    for _, equals in groupby(waiting, key=attrgetter("priority")):
        jobs = list(equals)
        # A seat and a place beside its engine exclude each other: the older job has the choice.
        riders = any(places.may_ride(job, request) for job in jobs)
        plan = NO_PLAN if riders else joint.plan(jobs, request)
        yield from (_place(request(job), plan, places, now) for job in plan.in_order(jobs))


def _place(request: Request, plan: Plan, places: Places, now: float) -> Outcome:
    job, fleet = request.job, places.fleet
    planned = plan.choices.get(job.uid)
    settled = Settled(planned, places.seat(request).refusal) if planned is not None else places.settled(request)
    choice, told = settled.choice, plan.told.get(job.uid, "")
    if choice.chosen is None:
        why = refused(job, choice, places)
        return Outcome(job, Action.WAIT, why + told + seatless(settled.not_seated, why), candidates=choice.candidates)
    best = choice.chosen
    placement = _placement(job, best, now, snapshot_time(fleet, best.node, now), places.policy)
    places.spreading.add(job, best.node)
    fleet.add(claimed(request, best))
    memory = "" if best.rides else _memory_told(job, fleet)
    message = (
        f"placed on {best.place}: predicted {best.prediction.fraction:.2f} of its throughput alone "
        f"({best.product}){rate_told(best.rate)}{memory}{told}{seatless(settled.not_seated)}"
    )
    return Outcome(job, Action.PLACE, message, placement, None, choice.candidates, best.prediction, settled.not_seated)


def _elsewhere(
    job: JobView, node: str, places: Places, waits: Mapping[JobKey, Mapping[str, Backoff]], now: float
) -> tuple[Request, Choice]:
    """The place of a job that keeps away from the node on which it is, too."""
    backoffs = waits.get(job.uid, {})
    request = places.request(job, backoffs)
    choice = places.settled(request).choice
    if choice.chosen is None or choice.chosen.node != node:
        return request, choice
    away = next_backoff(None, Reason.SLA_VIOLATED, node, now, places.policy)
    request = places.request(job, {**backoffs, node: away})
    return request, places.settled(request).choice


def _memory_told(job: JobView, fleet: Fleet) -> str:
    """What it has for itself and what it may have, where these differ."""
    if not job.pool:
        return ""
    most = gib(job.memory + job.pool)
    told = f"; {gib(job.memory)} of memory of its own, up to {most} with the device's pool"
    return told + above_all_devices(job, fleet.largest)


def snapshot_time(fleet: Fleet, node: str, now: float) -> float:
    """When the node was heard last: the start of a new lease."""
    heard = fleet.views[fleet.number[node]].heard
    return now if heard is None else min(heard, now)


def _placement(job: JobView, best: Candidate, now: float, heard: float, policy: Policy) -> Placement:
    digest = sha256(f"{job.uid} {best.place} {now:.6f}".encode()).hexdigest()
    return Placement(
        id=digest[:16],
        node=best.node,
        devices=best.devices,
        predicted=best.prediction.fraction,
        time=now,
        renewed=heard,
        duration=policy.lease_seconds,
        tenants=round(1.0 / best.prediction.sharing),
        rides=best.rides,
        shares=best.shares,
    )
