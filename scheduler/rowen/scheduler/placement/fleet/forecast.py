"""What a job gets on devices of one node beside the tenants there, factor by factor."""

from collections.abc import Sequence
from itertools import combinations

from rowen.scheduler.model.alignment import alignment
from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.idle import IdleLevel
from rowen.scheduler.model.memory import memory_doubt, memory_factor
from rowen.scheduler.model.prediction import Prediction, combined, idle_fraction
from rowen.scheduler.model.rider import assumed_part
from rowen.scheduler.placement.fleet.claims import sharing
from rowen.scheduler.placement.fleet.states import DeviceState

_KEPT = 4096
"""So many memory factors are kept for a node: an idle one's report may stay the same for days."""


def forecast(
    devices: Sequence[DeviceState],
    tenants: Sequence[int],
    own: Sequence[int],
    appetite: Appetite | None,
    *,
    least: float = 1.0,
    fits: bool = True,
) -> Prediction:
    """The factors on the devices, each beside so many tenants, the job itself among them.

    The tenants of a device have equal parts of its time and of its pool. In lockstep the least part, and the device
    with the least memory, set the pace. `own`: bytes on each that come off what its pool lends by the report.
    `least`: their alignment.
    """
    if appetite is None and fits and len(devices) == 1:
        return plain(devices[0], tenants[0])
    level, part = _idle(devices), sharing(max(tenants))
    memory, doubt = 1.0, 0.0
    if appetite is not None:
        each = zip(devices, tenants, own, strict=True)
        lent = [_lent(state, count, bytes_, appetite) for state, count, bytes_ in each]
        memory, doubt = min(factor for factor, _ in lent), max(doubt for _, doubt in lent)
    return Prediction(level.fraction, memory, least, part, fits, combined(level, doubt, part))


def plain(state: DeviceState, tenants: int) -> Prediction:
    """The same on one device without memory of the pool; worked out once."""
    found = state.plain.get(tenants)
    if found is None:
        part = sharing(tenants)
        found = Prediction(state.level.fraction, 1.0, 1.0, part, uncertainty=combined(state.level, 0.0, part))
        state.plain[tenants] = found
    return found


def riding(state: DeviceState, riders: int) -> Prediction:
    """The factors for one of so many riders: they have equal parts of what the engine gives."""
    given = state.part if state.part is not None else assumed_part(state.level.fraction)
    level, part = IdleLevel(given, state.level.deviation), sharing(riders)
    return Prediction(given, 1.0, 1.0, part, uncertainty=combined(level, 0.0, part))


def least_alignment(devices: Sequence[DeviceState]) -> float:
    """Least A(i, j) of the devices; 1 for a single one."""
    if len(devices) == 1:
        return 1.0
    return min(pair_alignment(first, second) for first, second in combinations(devices, 2))


def pair_alignment(first: DeviceState, second: DeviceState) -> float:
    """A(i, j); worked out once for each report."""
    known, key = first.node.view.alignments, (first.view.id, second.view.id)
    if key not in known:
        known[key] = alignment(first.view.busy, second.view.busy)
    return known[key]


def _idle(devices: Sequence[DeviceState]) -> IdleLevel:
    """I of the devices; of several it is worked out once for each report."""
    if len(devices) == 1:
        return devices[0].level
    view = devices[0].node.view
    ids = tuple(state.view.id for state in devices)
    if ids not in view.lockstep:
        view.lockstep[ids] = idle_fraction([state.view for state in devices])
    return IdleLevel(view.lockstep[ids], max(state.view.deviation for state in devices))


def _lent(state: DeviceState, tenants: int, own: int, appetite: Appetite) -> tuple[float, float]:
    """M on the device and its doubt; worked out once for each report."""
    view = state.view
    if not view.available:
        return 1.0, 0.0
    need, known = appetite.on(view.type, view.memory), state.node.view.lent
    key = view.id, need, tenants, own
    if key not in known:
        if len(known) >= _KEPT:
            known.clear()
        known[key] = memory_factor(need, state.node.view.trace(view.id) - own, sharing(tenants))
    return known[key], memory_doubt(need, known[key])
