"""Learns from the nodes' reports: measured throughput, solo profiles, prediction errors.

`observe` is pure: it takes the history and returns the next one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rowen.scheduler.backoff import kept
from rowen.scheduler.history import History, Sample, Track
from rowen.scheduler.occupancy import pod_of, pods_by_job, tenancies
from rowen.scheduler.policy import Policy
from rowen.scheduler.prediction import idle_fraction
from rowen.scheduler.profile import PredictionError, Profile, ProfileKey, newest, refined
from rowen.scheduler.snapshot import DeviceView, JobView, NodeView, Placement, PodView, Snapshot, TenantView

_FULL = 0.8
_REMNANT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Reading:
    """One job in one report."""

    job: JobView
    placement: Placement
    pod: PodView
    heard: float
    """When the report was new to the scheduler."""
    steady: float
    """Since when the node's reports have followed one another."""
    stamp: float
    """The node's own time of it."""
    tokens: int
    granted: float
    tenants: int
    device_type: str
    predicted: float


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
    readings = {reading.job.uid: reading for reading in _readings(snapshot, now, policy)}
    for uid, track in history.tracks.items():
        if uid not in readings and not _still_placed(snapshot.jobs.get(uid), track):
            _learn(profiles, track, now, _REMNANT_SECONDS)
        elif uid not in readings:
            tracks[uid] = track
    for uid, reading in readings.items():
        previous = history.tracks.get(uid)
        if previous is not None and not _continues(previous, reading):
            _learn(profiles, previous, now, _REMNANT_SECONDS)
            previous = None
        track = _advance(previous, reading, policy)
        if _learn(profiles, track, now, policy.profile_seconds):
            track = replace(track, unlearned_tokens=0.0, unlearned_granted=0.0)
        solo = profiles.get((track.workload, track.device_type))
        track = _measure(track, solo, reading.job.sla, policy)
        track, sample = _compare(track, reading, policy)
        if sample is not None:
            met.append(sample)
            errors[sample.workload] = errors.get(sample.workload, PredictionError()).updated(
                sample.predicted, sample.measured
            )
        tracks[uid] = track
    profiles = newest(profiles)
    after = replace(
        history,
        profiles=profiles,
        errors=_in_use(errors, profiles, snapshot),
        tracks=tracks,
        backoffs=kept(history.backoffs, snapshot.jobs, snapshot.nodes, now, policy),
        absences=_absences(history, snapshot, now),
    )
    return Observation(after, tuple(met))


def _in_use(
    errors: Mapping[str, PredictionError], profiles: Mapping[ProfileKey, Profile], snapshot: Snapshot
) -> dict[str, PredictionError]:
    """The errors of classes that have a profile or a job."""
    known = {workload for workload, _ in profiles} | {job.workload for job in snapshot.jobs.values()}
    return {workload: error for workload, error in errors.items() if workload in known}


def _readings(snapshot: Snapshot, now: float, policy: Policy) -> list[Reading]:
    pods = pods_by_job(snapshot)
    found = []
    for job in snapshot.jobs.values():
        pod = pod_of(job, pods.get(job.uid, []))
        node = snapshot.nodes.get(pod.node) if pod else None
        if job.placement is None or pod is None or node is None:
            continue
        held = tenancies(node, pod) if node.age(now) <= policy.lease_seconds else []
        if held and node.heard is not None and node.reported is not None:
            found.append(_reading(job, job.placement, pod, node, node.heard, node.reported, held))
    return found


def _reading(
    job: JobView,
    placement: Placement,
    pod: PodView,
    node: NodeView,
    heard: float,
    stamp: float,
    held: Sequence[tuple[DeviceView, TenantView]],
) -> Reading:
    tenants = max(len(device.tenants) for device, _ in held)
    return Reading(
        job=job,
        placement=placement,
        pod=pod,
        heard=heard,
        steady=node.steady,
        stamp=stamp,
        tokens=max(tenant.tokens for _, tenant in held),
        granted=max(tenant.granted for _, tenant in held),
        tenants=tenants,
        device_type=held[0][0].type,
        predicted=idle_fraction([device for device, _ in held], node.window) / tenants,
    )


def _still_placed(job: JobView | None, track: Track) -> bool:
    return job is not None and job.placement is not None and job.placement.id == track.assignment and not job.finished


def _continues(track: Track, reading: Reading) -> bool:
    same = reading.placement.id == track.assignment and reading.pod.name == track.pod
    return same and reading.tokens >= track.tokens and reading.granted >= track.granted


def _advance(track: Track | None, reading: Reading, policy: Policy) -> Track:
    """The track after the report; one that was read before changes nothing."""
    if track is None:
        track = _begin(reading)
    elif reading.heard == track.time:
        return track
    elif not _follows(track, reading):
        since = min(track.since, reading.heard)
        track = replace(track, since=since, samples=(), violating_since=None, tokens_per_second=None, fraction=None)
    samples = track.samples
    if reading.tokens > 0 or samples:
        samples = (*samples, Sample(reading.stamp, reading.tokens))
    elif reading.job.counts_tokens and reading.heard - track.since > policy.startup_seconds:
        samples = (Sample(reading.stamp, 0),)
    return replace(
        track,
        time=reading.heard,
        tokens=reading.tokens,
        granted=reading.granted,
        samples=_within(samples, reading.stamp - policy.monitor_window_seconds),
        unlearned_tokens=track.unlearned_tokens + reading.tokens - track.tokens,
        unlearned_granted=track.unlearned_granted + (reading.granted - track.granted) / reading.tenants,
    )


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
        tenants=reading.tenants,
        predicted=reading.predicted,
        predicted_at=reading.heard,
    )


def _within(samples: tuple[Sample, ...], start: float) -> tuple[Sample, ...]:
    """The samples since `start`, and the last one before it, so that the window stays covered."""
    first = 0
    while first + 1 < len(samples) and samples[first + 1].time <= start:
        first += 1
    return samples[first:]


def _learn(profiles: dict[ProfileKey, Profile], track: Track, now: float, least: float) -> bool:
    """Takes what the track has gathered into its profile, once that is enough."""
    if track.unlearned_granted < least or track.unlearned_tokens <= 0:
        return False
    key = (track.workload, track.device_type)
    profiles[key] = refined(profiles.get(key), track.unlearned_tokens, track.unlearned_granted, now)
    return True


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
    return replace(track, tokens_per_second=rate, fraction=fraction, violating_since=since)


def _compare(track: Track, reading: Reading, policy: Policy) -> tuple[Track, ErrorSample | None]:
    """Closes the prediction's window: what was predicted at its start against what was measured over it.

    A window in which the number of tenants changed says nothing about the predictor and is dropped.
    """
    restart = replace(track, tenants=reading.tenants, predicted=reading.predicted, predicted_at=reading.heard)
    if reading.tenants != track.tenants or len(track.samples) < 2:
        return restart, None
    if track.fraction is None or reading.heard - track.predicted_at < policy.monitor_window_seconds:
        return track, None
    if track.predicted <= 0.0:
        return restart, None
    return restart, ErrorSample(track.workload, track.predicted, track.fraction)


def _absences(history: History, snapshot: Snapshot, now: float) -> dict[tuple[str, str], float]:
    return {
        device.key: min(now, history.absences.get(device.key, now))
        for node in snapshot.nodes.values()
        for device in node.devices
        if not device.attached
    }
