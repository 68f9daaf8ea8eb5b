"""Learns from the nodes' reports: measured throughput, solo profiles, prediction errors.

`observe` is pure: it takes the history and returns the next one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rowen.scheduler.history import History, Sample, Track
from rowen.scheduler.model.profile import PredictionError, Profile, ProfileKey, newest
from rowen.scheduler.monitor.backoff import kept
from rowen.scheduler.monitor.drift import drifted
from rowen.scheduler.monitor.learning import gathered, learn
from rowen.scheduler.monitor.reading import Reading, readings_of
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, Snapshot

_FULL = 0.8
_REMNANT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ErrorSample:
    """A prediction and what came of it, as fractions of solo throughput."""

    workload: str
    predicted: float
    measured: float


@dataclass(frozen=True, slots=True)
class Observation:
    """The next history, and the prediction errors that it met."""

    history: History
    errors: tuple[ErrorSample, ...] = ()


def observe(history: History, snapshot: Snapshot, now: float, policy: Policy) -> Observation:
    """Reads every fresh report that has not been read yet."""
    profiles, errors = dict(history.profiles), dict(history.errors)
    tracks: dict[str, Track] = {}
    met: list[ErrorSample] = []
    readings, known = readings_of(history, snapshot, now, policy)
    for uid, track in history.tracks.items():
        if uid in known or (uid not in readings and _still_placed(snapshot.jobs.get(uid), track)):
            tracks[uid] = track
        elif uid not in readings:
            learn(profiles, uid, track, now, _REMNANT_SECONDS)
    for uid, reading in readings.items():
        previous = history.tracks.get(uid)
        if previous is not None and not _continues(previous, reading):
            learn(profiles, uid, previous, now, _REMNANT_SECONDS)
            previous = None
        track = _advance(previous, reading, policy)
        track = _watched(previous, track, reading, history.error(track.workload), policy)
        track = learn(profiles, uid, track, now, policy.profile_seconds, reading.job.solo)
        solo = profiles.get((track.workload, track.device_type))
        track = _measure(track, solo, reading.job.sla, policy)
        track, sample = _compare(track, reading, policy)
        if sample is not None:
            met.append(sample)
            error = errors.get(sample.workload, PredictionError())
            errors[sample.workload] = error.updated(sample.predicted, sample.measured, now)
        tracks[uid] = track
    profiles = newest(profiles)
    after = replace(
        history,
        profiles=profiles,
        errors=_in_use(errors, profiles, snapshot),
        tracks=tracks,
        backoffs=kept(history.backoffs, snapshot.jobs, snapshot.nodes, now, policy),
        absences=_absences(history, snapshot, now),
        time=now,
    )
    return Observation(after, tuple(met))


def _in_use(
    errors: Mapping[str, PredictionError], profiles: Mapping[ProfileKey, Profile], snapshot: Snapshot
) -> dict[str, PredictionError]:
    """The errors of classes that have a profile or a job."""
    known = {workload for workload, _ in profiles} | {job.workload for job in snapshot.jobs.values()}
    return {workload: error for workload, error in errors.items() if workload in known}


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
            track, since=since, samples=(), violating_since=None, tokens_per_second=None, fraction=None,
            granted_part=None, speed=None, drift=0.0,
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
    drift = drifted(track.drift, promised, expected.fraction, max(error.bound, noise), elapsed)
    return replace(track, expected=expected.fraction, drift=drift)


def _follows(track: Track, reading: Reading) -> bool:
    """Whether the report continues the window.

    It does not after a silence, in which offline work stood still, nor where the node's clock has been set, nor where
    the scheduler's own was put back. How far apart passes are does not matter.
    """
    set_back = bool(track.samples) and reading.stamp <= track.samples[-1].time
    return reading.steady <= track.time < reading.heard and not set_back


def _begin(reading: Reading) -> Track:
    """A new track. Counters from before count only while the tenant is alone: no one shared them."""
    alone = reading.tenants == 1
    return Track(
        assignment=reading.placement.id,
        pod=reading.pod.name,
        workload=reading.job.workload,
        device_type=reading.device_type,
        since=min(reading.placement.time, reading.heard),
        time=reading.heard,
        tokens=0 if alone else reading.tokens,
        granted=0.0 if alone else reading.granted,
        node=reading.placement.node,
        tenants=reading.tenants,
        beside=min(reading.placement.time, reading.heard),
        predicted=reading.promised,
        predicted_at=reading.heard,
    )


def _within(samples: tuple[Sample, ...], start: float) -> tuple[Sample, ...]:
    """The samples since `start`, and the last one before it, so that the window stays covered."""
    first = 0
    while first + 1 < len(samples) and samples[first + 1].time <= start:
        first += 1
    return samples[first:]


def _measure(track: Track, solo: Profile | None, sla: float | None, policy: Policy) -> Track:
    """Throughput over the window, and since when it is below the SLA."""
    if len(track.samples) < 2:
        return track
    first, last = track.samples[0], track.samples[-1]
    span = last.time - first.time
    if span < _FULL * policy.monitor_window_seconds:
        return track
    rate = (last.tokens - first.tokens) / span
    fraction = rate / solo.tokens_per_second if solo else (0.0 if rate == 0.0 else None)
    below = fraction is not None and sla is not None and fraction < sla
    since = (track.violating_since or track.time) if below else None
    granted = (last.granted - first.granted) / track.tenants
    speed = (last.tokens - first.tokens) / granted / solo.tokens_per_second if solo and granted > 0.0 else None
    return replace(
        track,
        tokens_per_second=rate,
        fraction=fraction,
        violating_since=since,
        granted_part=granted / span,
        speed=speed,
    )


def _compare(track: Track, reading: Reading, policy: Policy) -> tuple[Track, ErrorSample | None]:
    """Closes the promise's window: what the assignment was made for against what was measured.

    A window in which the number of tenants changed says nothing about the predictor and is dropped.
    """
    beside = track.beside if reading.tenants == track.tenants else reading.heard
    restart = replace(
        track, tenants=reading.tenants, beside=beside, predicted=reading.promised, predicted_at=reading.heard
    )
    if reading.tenants != track.tenants or len(track.samples) < 2:
        return restart, None
    if track.fraction is None or reading.heard - track.predicted_at < policy.monitor_window_seconds:
        return track, None
    if track.predicted is None or track.predicted <= 0.0:
        return restart, None
    return restart, ErrorSample(track.workload, track.predicted, track.fraction)


def _absences(history: History, snapshot: Snapshot, now: float) -> dict[tuple[str, str], float]:
    return {
        device.key: min(now, history.absences.get(device.key, now))
        for node in snapshot.nodes.values()
        for device in node.devices
        if not device.attached
    }
