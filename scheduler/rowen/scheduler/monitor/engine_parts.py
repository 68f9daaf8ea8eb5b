"""What engines are measured to give those that ride in them."""

from collections.abc import Iterator, Mapping
from math import exp2

from rowen.scheduler.device import DeviceKey, DeviceView
from rowen.scheduler.history import EnginePart, History, Track
from rowen.scheduler.model.rider import assumed_part
from rowen.scheduler.snapshot import JobKey, JobView, Snapshot

_HALF_SECONDS = 900.0
"""After so long without a rider what was measured counts for half, and what is assumed for the rest."""
_KEPT_SECONDS = 4.0 * _HALF_SECONDS


def engine_parts(history: History, snapshot: Snapshot, now: float) -> dict[DeviceKey, float]:
    """As parts of a job's throughput alone on the device, of engines in which somebody rides, or did of late.

    `now`: Unix seconds.
    """
    remembered = {device.key: _faded(known, device, now) for device, known in _standing(history.parts, snapshot, now)}
    return remembered | _measured(history, snapshot.jobs)


def parts_kept(history: History, snapshot: Snapshot, now: float) -> dict[DeviceKey, EnginePart]:
    """What is worth keeping of what the history knows, with what its tracks tell now."""
    kept = {device.key: known for device, known in _standing(history.parts, snapshot, now)}
    for key, part in _measured(history, snapshot.jobs).items():
        device = _device(snapshot, key)
        if device is not None and device.engine is not None:
            kept[key] = EnginePart(_after(kept.get(key), part, now), now, device.engine.served)
    return kept


def _after(known: EnginePart | None, part: float, now: float) -> float:
    """What is known after a measurement: less only by and by.

    A rider that ends, or whose engine is away, makes less in its last minute than the engine would give.
    """
    if known is None or part >= known.part:
        return part
    return part + (known.part - part) * exp2((known.time - now) / _HALF_SECONDS)


def _standing(
    parts: Mapping[DeviceKey, EnginePart], snapshot: Snapshot, now: float
) -> Iterator[tuple[DeviceView, EnginePart]]:
    """Those that are not too old, of devices whose engine serves the same as then."""
    for key, known in parts.items():
        device = _device(snapshot, key)
        engine = device.engine if device is not None else None
        same = engine is not None and engine.served == known.served
        if device is not None and same and now - known.time < _KEPT_SECONDS:
            yield device, known


def _device(snapshot: Snapshot, key: DeviceKey) -> DeviceView | None:
    node = snapshot.nodes.get(key[0])
    return node.device(key[1]) if node is not None else None


def _faded(known: EnginePart, device: DeviceView, now: float) -> float:
    """It depends on the requests: the older it is, the more it is a guess."""
    weight = min(1.0, exp2((known.time - now) / _HALF_SECONDS))
    assumed = assumed_part(device.idle)
    return assumed + weight * (known.part - assumed)


def _measured(history: History, jobs: Mapping[JobKey, JobView]) -> dict[DeviceKey, float]:
    """What the rider who is best off makes, times their number.

    Nothing of engines in which nobody rides who tells of it.
    """
    found: dict[DeviceKey, float] = {}
    for uid, track in history.tracks.items():
        placement = jobs[uid].placement if uid in jobs else None
        if placement is None or not placement.rides or placement.id != track.assignment:
            continue
        if track.fraction is None or not _tells(track, history):
            continue
        part = min(1.0, track.fraction * track.tenants)
        for id_ in placement.devices:
            key = placement.node, id_
            found[key] = max(part, found.get(key, 0.0))
    return found


def _tells(track: Track, history: History) -> bool:
    """Whether what the rider makes says what the engine gives.

    It does not before its first token, when it loads or evaluates, nor where its throughput alone is not known.
    """
    return track.tokens > 0 and history.solo(track.workload, *track.device_types) is not None
