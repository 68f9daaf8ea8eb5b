"""What engines are measured to give those that ride in them."""

from collections.abc import Mapping

from rowen.scheduler.device import DeviceKey
from rowen.scheduler.history import History, Track
from rowen.scheduler.snapshot import JobKey, JobView


def engine_parts(history: History, jobs: Mapping[JobKey, JobView]) -> dict[DeviceKey, float]:
    """As parts of a job's throughput alone on the device: that of the rider who is best off, times their number.

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
