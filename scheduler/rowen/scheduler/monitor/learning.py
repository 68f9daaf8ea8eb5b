"""What a job's reports teach: solo throughput, and throughput by memory."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from rowen.scheduler.device import DeviceView
from rowen.scheduler.history import Track
from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.evidence import NO_FEATURES, Features, MemoryEvidence, features
from rowen.scheduler.model.idle import IdleLevel
from rowen.scheduler.model.memory import memory_factor
from rowen.scheduler.model.prediction import seen_idle
from rowen.scheduler.model.profile import Profile, ProfileKey, Window, given, refined
from rowen.scheduler.model.rider import own_class
from rowen.scheduler.snapshot import JobView, Placement

_COVERED = 0.99
"""Part of a window's granted seconds for which the memory has to be known."""


def expected_fraction(devices: Sequence[DeviceView], tenants: int, appetite: Appetite | None) -> IdleLevel:
    """What the last report alone lets expect of a job on the devices, beside so many tenants, itself among them."""
    level, part = seen_idle(devices), lent_fraction(devices, tenants, appetite) / tenants
    return IdleLevel(level.fraction * part, level.deviation * part)


def lent_fraction(devices: Sequence[DeviceView], tenants: int, appetite: Appetite | None) -> float:
    """M by the last report, of the device with the least."""
    if appetite is None:
        return 1.0
    needs = (appetite.on(device.type, device.memory) for device in devices)
    return min(
        memory_factor(need, device.available, 1.0 / tenants) for need, device in zip(needs, devices, strict=True)
    )


def promised_fraction(
    placement: Placement, devices: Sequence[DeviceView], tenants: int, appetite: Appetite | None
) -> float | None:
    """What the assignment was made for, beside the tenants of now; None where it is not known beside how many it was.

    Each takes its part of the time, and of the memory: what that is worth less is taken from the last report.
    Never more than its part of the time: where memory is short in the report, and was not when the promise was made,
    the ratio has no bound.
    """
    made_beside = placement.tenants
    if made_beside is None:
        return None
    then, now = (lent_fraction(devices, count, appetite) for count in (made_beside, tenants))
    lent = now / then if then > 0.0 else 1.0
    return min(1.0, placement.predicted * made_beside * lent) / tenants


def memory_features(job: JobView, devices: Sequence[DeviceView]) -> Features | None:
    """Of the memory that there was for the job on its devices; None where that does not matter or is not known.

    In lockstep that of the device with the least: the others wait for it.
    """
    found = [_memory_features(job, device) for device in devices]
    known = [features for features in found if features is not None]
    return min(known, key=sum) if len(known) == len(found) else None


def _memory_features(job: JobView, device: DeviceView) -> Features | None:
    need = job.need.within(device.memory - job.memory) if job.need is not None else None
    if need is None or need.want_bytes == 0 or not device.available:
        return None
    return features(device.available, need.want_bytes)


def gathered(track: Track, tokens: int, granted: float, memory: Features | None, *, alone: bool) -> Track:
    """The track with what one more report says, not yet in the profile. `granted`: the job's part, seconds."""
    weighted = [granted * value for value in memory or NO_FEATURES]
    return replace(
        track,
        unlearned_tokens=track.unlearned_tokens + tokens,
        unlearned_granted=track.unlearned_granted + granted,
        unlearned_features=tuple(a + b for a, b in zip(track.unlearned_features, weighted, strict=True)),
        unlearned_alone=track.unlearned_alone and alone,
    )


def learn(
    profiles: dict[ProfileKey, Profile], uid: str, track: Track, now: float, least: float, solo: float | None = None
) -> Track:
    """Takes what the track has gathered into its profile, once that is `least` granted seconds; the track without it.

    `solo`: what the job's spec says, where there is no profile yet; it speaks of the job by itself, also where it
    rides. What was gathered on devices of several types is no type's own throughput, so it teaches none.
    """
    keys = [(track.workload, type_) for type_ in track.device_types]
    if solo is not None:
        alone = [(own_class(track.workload), type_) for type_ in track.device_types]
        profiles.update((key, given(solo, now)) for key in alone if key not in profiles)
    if len(keys) != 1 or track.unlearned_granted < least or track.unlearned_tokens <= 0:
        return track
    key = keys[0]
    witness = sha256(f"{uid} {track.node}".encode()).hexdigest()[:12]
    window = Window(witness, track.unlearned_tokens, track.unlearned_granted, track.unlearned_alone)
    profile = refined(profiles.get(key), window, now)
    profiles[key] = replace(profile, memory=_evidence(profile.memory, track, window.rate))
    return replace(
        track, unlearned_tokens=0.0, unlearned_granted=0.0, unlearned_features=NO_FEATURES, unlearned_alone=True
    )


def _evidence(before: MemoryEvidence | None, track: Track, rate: float) -> MemoryEvidence | None:
    """With the track's window, if it says something: what a neighbour takes is no effect of the memory."""
    granted, known = track.unlearned_granted, track.unlearned_features[0]
    if not track.unlearned_alone or known < _COVERED * granted:
        return before
    means = tuple(total / known for total in track.unlearned_features)
    return (before or MemoryEvidence()).updated(means, rate, granted)
