"""Learns from the nodes' reports: measured throughput, solo profiles, prediction errors.

`observe` is pure: it takes the history and returns the next one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rowen.crds.names import NODE_LEASE_SECONDS
from rowen.scheduler.history import History, Sample, Track
from rowen.scheduler.model.profile import PredictionError, Profile, ProfileKey, newest, solo_rate
from rowen.scheduler.monitor.backoff import kept
from rowen.scheduler.monitor.drift import missing
from rowen.scheduler.monitor.learning import gathered, learn
from rowen.scheduler.monitor.reading import Reading, readings_of
from rowen.scheduler.monitor.scoring import LEAST_SECONDS, SCORED_SECONDS, ErrorSample, Score, error_of
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, Snapshot

_FULL = 0.8
_REMNANT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Observation:
    """The next history, and the prediction errors that it met."""

    history: History
    errors: tuple[ErrorSample, ...] = ()


def observe(history: History, snapshot: Snapshot, now: float, policy: Policy) -> Observation:
    """Reads every fresh report that has not been read yet."""
    profiles, errors = dict(history.profiles), dict(history.errors)
    tracks: dict[str, Track] = {}
    met: list[ErrorSample | None] = []
    readings, known = readings_of(history, snapshot, now, policy)
    for uid, track in history.tracks.items():
        if _has_ended(track, readings.get(uid), snapshot.jobs.get(uid), known=uid in known):
            learn(profiles, uid, track, now, _REMNANT_SECONDS)
            met.append(error_of(track.score, track.workload, _solo(profiles, track), LEAST_SECONDS))
        elif uid not in readings:
            tracks[uid] = track
    for uid, reading in readings.items():
        previous = history.tracks.get(uid)
        before = previous if previous is not None and _continues(previous, reading) else None
        track = _advance(before, reading, policy)
        if before is None and previous is not None and previous.assignment == track.assignment:
            track = replace(track, score=previous.score.ended)
        track = _watched(before, track, reading, history.error(track.workload), policy)
        track = learn(profiles, uid, track, now, policy.profile_seconds, reading.job.solo)
        solo = _solo(profiles, track)
        track = _measure(track, solo, policy)
        track, sample = _judged(track, reading, _since(before, reading), solo, policy)
        met.append(sample)
        tracks[uid] = track
    samples = tuple(sample for sample in met if sample is not None)
    for sample in samples:
        error = errors.get(sample.workload, PredictionError())
        errors[sample.workload] = error.updated(sample.predicted, sample.measured, now, sample.weight)
    profiles = newest(profiles)
    after = replace(
        history,
        profiles=profiles,
        errors=_in_use(errors, profiles, snapshot, tracks),
        tracks=tracks,
        backoffs=kept(history.backoffs, snapshot.jobs, snapshot.nodes, now, policy),
        absences=_absences(history, snapshot, now),
        time=now,
    )
    return Observation(after, samples)


def _in_use(
    errors: Mapping[str, PredictionError],
    profiles: Mapping[ProfileKey, Profile],
    snapshot: Snapshot,
    tracks: Mapping[str, Track],
) -> dict[str, PredictionError]:
    """The errors of classes that have a profile or a job."""
    known = {workload for workload, _ in profiles} | {job.workload for job in snapshot.jobs.values()}
    known |= {track.workload for track in tracks.values()}
    return {workload: error for workload, error in errors.items() if workload in known}


def _solo(profiles: Mapping[ProfileKey, Profile], track: Track) -> float | None:
    """That of the job by itself, which predictions and SLAs are parts of."""
    return solo_rate(profiles, track.workload, track.device_types)


def _has_ended(track: Track, reading: Reading | None, job: JobView | None, *, known: bool) -> bool:
    if reading is not None:
        return not _continues(track, reading)
    return not known and not _still_placed(job, track)


def _still_placed(job: JobView | None, track: Track) -> bool:
    return job is not None and job.placement is not None and job.placement.id == track.assignment and not job.finished


def _continues(track: Track, reading: Reading) -> bool:
    same = reading.placement.id == track.assignment and reading.pod.name == track.pod
    return same and reading.tokens >= track.tokens and reading.granted >= track.granted


def _advance(track: Track | None, reading: Reading, policy: Policy) -> Track:
    """The track after the report."""
    # The memory of one window says nothing of counters from before it.
    memory = reading.memory if track is not None and _follows(track, reading) else None
    if track is None:
        track = _begin(reading)
    elif not _follows(track, reading):
        since = min(track.since, reading.heard)
        track = replace(
            track, since=since, samples=(), tokens_per_second=None, fraction=None, granted_part=None, speed=None,
            drift=0.0,
        )  # fmt: skip
    samples = track.samples
    if reading.tokens > 0 or samples:
        samples = (*samples, Sample(reading.stamp, reading.tokens, reading.granted))
    elif reading.job.counts_tokens and reading.heard - track.since > policy.startup_seconds:
        samples = (Sample(reading.stamp, 0, reading.granted),)
    granted = (reading.granted - track.granted) / reading.tenants
    track = gathered(track, reading.tokens - track.tokens, granted, memory, alone=reading.tenants == 1)
    return replace(
        track,
        time=reading.heard,
        tokens=reading.tokens,
        granted=reading.granted,
        samples=_within(samples, reading.stamp - policy.monitor_window_seconds),
    )


def _watched(before: Track | None, track: Track, reading: Reading, error: PredictionError, policy: Policy) -> Track:
    """The track with what the report says of the pattern that the promise was made for.

    Of a silence nothing is known, and a report speaks for the time since the one before, the lease's length at most.
    """
    follows = before is not None and _follows(before, reading)
    elapsed = min(policy.lease_seconds, reading.heard - before.time) if before is not None and follows else 0.0
    promised, expected = reading.promised or 0.0, reading.expected
    noise = 2.0 * expected.deviation / promised if promised > 0.0 else 0.0
    drift = missing(track.drift, promised, expected.fraction, elapsed, max(error.bound, noise))
    return replace(track, expected=expected.fraction, drift=drift)


def _follows(track: Track, reading: Reading) -> bool:
    """Whether the report continues the window.

    It does not after a silence, in which offline work stood still, nor where the node's clock has been set, nor where
    the scheduler's own was put back. How far apart passes are does not matter.
    """
    clock_set = bool(track.samples) and _is_set(reading.stamp - track.samples[-1].time, reading.heard - track.time)
    return reading.steady <= track.time < reading.heard and not clock_set


def _is_set(by_node: float, heard: float) -> bool:
    """Whether the node's clock was set, by the seconds between two reports: its own, and those between their arrivals.

    What is little ahead may be a report that came late before.
    """
    return by_node <= 0.0 or by_node > heard + NODE_LEASE_SECONDS


def _begin(reading: Reading) -> Track:
    """A new track. Counters from before count only while the tenant is alone: no one shared them."""
    alone = reading.tenants == 1
    return Track(
        assignment=reading.placement.id,
        pod=reading.pod.name,
        workload=reading.workload,
        device_types=reading.device_types,
        since=min(reading.placement.time, reading.heard),
        time=reading.heard,
        tokens=0 if alone else reading.tokens,
        granted=0.0 if alone else reading.granted,
        node=reading.placement.node,
        tenants=reading.tenants,
        beside=min(reading.placement.time, reading.heard),
        score=Score(reading.promised),
    )


def _within(samples: tuple[Sample, ...], start: float) -> tuple[Sample, ...]:
    """The samples since `start`, and the last one before it, so that the window stays covered."""
    first = 0
    while first + 1 < len(samples) and samples[first + 1].time <= start:
        first += 1
    return samples[first:]


def _measure(track: Track, solo: float | None, policy: Policy) -> Track:
    """Throughput over the window."""
    if len(track.samples) < 2:
        return track
    first, last = track.samples[0], track.samples[-1]
    span = last.time - first.time
    if span < _FULL * policy.monitor_window_seconds:
        return track
    rate = (last.tokens - first.tokens) / span
    fraction = rate / solo if solo else (0.0 if rate == 0.0 else None)
    granted = (last.granted - first.granted) / track.tenants
    speed = (last.tokens - first.tokens) / granted / solo if solo and granted > 0.0 else None
    return replace(track, tokens_per_second=rate, fraction=fraction, granted_part=granted / span, speed=speed)


def _since(before: Track | None, reading: Reading) -> tuple[float, int]:
    """Seconds by the node's clock, and tokens, since the report before; nothing before the first token."""
    if before is None or not before.samples or not _follows(before, reading):
        return 0.0, 0
    return reading.stamp - before.samples[-1].time, reading.tokens - before.tokens


def _judged(
    track: Track, reading: Reading, since: tuple[float, int], solo: float | None, policy: Policy
) -> tuple[Track, ErrorSample | None]:
    """The track with what is missing of its SLA, and its promise with what came of it.

    A promise is of so many tenants: where their number has changed, what is measured of it begins anew.
    """
    seconds, tokens = since
    # Where nothing is made at all, it need not be known how fast it would be alone.
    got = tokens / seconds / solo if solo and seconds > 0.0 else track.fraction
    if got is not None:
        owed = missing(track.shortfall, reading.job.sla or 0.0, got, seconds, most=policy.remembered_seconds)
        track = replace(track, shortfall=owed)
    elif solo is None and tokens > 0:
        # Of what it makes nobody can say whether it is enough, so nothing would ever pay back what a halt has left.
        track = replace(track, shortfall=0.0)
    if reading.tenants != track.tenants:
        score = track.score if track.score.closed else Score(reading.promised)
        return replace(track, tenants=reading.tenants, beside=reading.heard, score=score), None
    score = track.score.measured(seconds, tokens)
    sample = error_of(score, track.workload, solo, SCORED_SECONDS)
    return replace(track, score=score if sample is None else score.ended), sample


def _absences(history: History, snapshot: Snapshot, now: float) -> dict[tuple[str, str], float]:
    return {
        device.key: min(now, history.absences.get(device.key, now))
        for node in snapshot.nodes.values()
        for device in node.devices
        if not device.attached
    }
