"""The factors of one candidate, and the first reason against it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import floor

from rowen.scheduler.model.prediction import Prediction
from rowen.scheduler.monitor.backoff import EVERY_NODE
from rowen.scheduler.placement.eligibility import exclusion
from rowen.scheduler.placement.fleet.claims import Impact
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.fleet.states import DeviceState, NodeState
from rowen.scheduler.placement.memory_words import lending_help, memory_refusal
from rowen.scheduler.placement.search.request import Candidate, Request, factors_told, rate_told
from rowen.scheduler.policy import Policy

Devices = tuple[DeviceState, ...]
BACK_OFF = "back-off until "
"""How every refusal begins that is for a back-off, and no other."""
_LARGE_MARGIN = 0.5
"""Of the SLA: a class of which nothing was measured has 0.11."""
_ROUNDING = 1e-9
_AFTER_RIDERS = "; jobs that rode in its engine took of it, too: wait, or a less busy service would change it"


def evaluate(request: Request, fleet: Fleet, devices: Devices, policy: Policy) -> Candidate:
    """The factors of one candidate, and the first reason against it."""
    node = devices[0].node.view.name
    prediction = fleet.predict(devices, request.job, request.appetite)
    rate = rate_of(request.rates, devices)
    ids = tuple(sorted(state.view.id for state in devices))
    refusal = _refusal(request, fleet, devices, prediction, policy)
    if refusal:
        return Candidate(node, ids, prediction, refusal, rate=rate, shares=shared(devices))
    impact = fleet.impact(devices, request.job.memory)
    gain = impact.gain(prediction.fraction * len(ids) * rate)
    refusal = _at_whose_cost(impact, gain, rate, request.job.priority)
    gain = 0.0 if refusal else gain
    return Candidate(node, ids, prediction, refusal, gain, rate=rate, shares=shared(devices))


def fit(request: Request, fleet: Fleet, state: DeviceState) -> Candidate:
    """As `evaluate`, of one device against which the search over all of them has found nothing."""
    devices = (state,)
    prediction = fleet.newcomer(devices, request.job.memory, request.appetite)
    rate = rate_of(request.rates, devices)
    gain = fleet.impact(devices, request.job.memory).gain(prediction.fraction * rate)
    return Candidate(state.view.node, (state.view.id,), prediction, "", gain, rate=rate, shares=shared(devices))


def shared(devices: Devices) -> bool:
    """Whether the job runs beside requests: the agent gives a share to a pod on one device alone."""
    return len(devices) == 1 and devices[0].view.shares


def rate_of(rates: Mapping[str, float], devices: Devices) -> float:
    """Throughput alone over that on the best device type: in lockstep the slowest device sets the pace."""
    return min(rates.get(state.view.type, 1.0) for state in devices) if rates else 1.0


def _at_whose_cost(impact: Impact, gain: float, rate: float, priority: int) -> str:
    """Whose promise it would break, or who would lose more than it gains."""
    return _broken_promise(impact) or _lower_total(impact, gain, rate, priority)


def _broken_promise(impact: Impact) -> str:
    fall = impact.broken
    if fall is None:
        return ""
    if fall.claim.short:
        return f"{fall.claim.label} falls short of its SLA {fall.claim.promise.sla:.2f} already"
    return f"{fall.claim.label} would fall to {fall.after:.2f} < its SLA with margin {fall.need:.2f}"


def _lower_total(impact: Impact, gain: float, rate: float, priority: int) -> str:
    if not impact.forbids(gain, priority):
        return ""
    worst = max(impact.falls, key=lambda fall: fall.loss)
    return (
        f"would lower the total by {-gain:.2f} devices{rate_told(rate)}: "
        f"{worst.claim.label} would fall from {worst.before:.2f} to {worst.after:.2f}"
    )


def _refusal(request: Request, fleet: Fleet, devices: Devices, prediction: Prediction, policy: Policy) -> str:
    node = devices[0].node
    excluded = exclusion(node.view, request.job.constraints)
    if excluded:
        return excluded
    waits = backed_off(request, node.view.name) or request.away.get(node.view.name, "")
    if waits:
        return waits
    if prediction.alignment < policy.alignment_threshold:
        told = f"alignment {prediction.alignment:.2f} < {policy.alignment_threshold:.2f}"
        return f"{told}; services that are busy at the same time, or fewer spec.devices, may do"
    if not prediction.fits:
        tightest = min(devices, key=lambda state: state.free)
        return memory_refusal(request.job, tightest.view, tightest.free)
    if node.free_slots < len(devices) or not all(map(node.takes, devices)):
        return _no_slot(node, devices)
    return _shortfall(request, fleet, prediction, devices)


def _no_slot(node: NodeState, devices: Devices) -> str:
    ridden = next((state for state in devices if state.ridden), None)
    if ridden is not None:
        return f"jobs ride in the engine of {ridden.view.id}: none runs beside it meanwhile"
    held = next((state for state in devices if state.view.restraint and not node.takes(state)), None)
    if held is not None and node.free_slots >= len(devices):
        return f"{held.view.restraint}: {held.view.id} has one"
    return f"no free harvest slot ({max(0, node.free_slots)} of {node.view.slots} free on the node)"


def backed_off(request: Request, node: str) -> str:
    """Which back-off keeps the job from the node; empty where none does."""
    for place, name in ((EVERY_NODE, "all nodes"), (node, "this node")) if request.backoffs else ():
        backoff = request.backoffs.get(place)
        if backoff is not None:
            until = datetime.fromtimestamp(backoff.until, UTC).strftime("%H:%M:%SZ")
            return f"{BACK_OFF}{until} after {backoff.reason} (attempt {backoff.count} on {name})"
    return ""


def _shortfall(request: Request, fleet: Fleet, prediction: Prediction, devices: Devices) -> str:
    """The factors, the smallest first, when the product is too small, and what would help."""
    fraction = prediction.fraction
    if fraction >= request.least(prediction.uncertainty):
        return ""
    help_ = _help(request, fleet, prediction, devices)
    if request.job.sla is None:
        name = "memory" if prediction.memory < prediction.idle else "idle"
        return f"{name} {min(prediction.memory, prediction.idle):.3f}: nothing to harvest{help_}"
    margin = request.promise.margin(prediction.uncertainty)
    told = factors_told(prediction)
    product = f" = {fraction:.2f}" if " x " in told else ""
    # Below the SLA itself it is the factors that decide, and a large margin is told all the same.
    decides = fraction >= request.job.sla or margin > _LARGE_MARGIN * request.job.sla
    source = f" ({_margin_told(request, prediction, devices)})" if decides else ""
    return f"{told}{product} < SLA {request.job.sla:.2f} + margin {margin:.2f}{source}{help_}"


def _margin_told(request: Request, prediction: Prediction, devices: Devices) -> str:
    """Where the margin comes from: the class, or the factor of this prediction that is least sure."""
    error, unsure = request.promise.error, prediction.uncertainty
    if error.deviation >= unsure:
        off = f"its class is off by up to {error.bound:.0%}"
        return off if error.measured else "nothing of its class is measured of late"
    noise = max(state.view.deviation for state in devices) / prediction.idle if prediction.idle else 0.0
    if 2.0 * noise * noise >= unsure * unsure:
        return f"its idle time moves by {noise:.0%}"
    return f"what memory is worth to it is known to {unsure:.0%}" if request.appetite else "beside neighbours"


def _help(request: Request, fleet: Fleet, prediction: Prediction, devices: Devices) -> str:
    """What would change the smallest factor; nothing where others there would have to lose for it.

    In the same words while figures move, or a status would be rewritten.
    """
    idle, memory, sharing = prediction.idle, prediction.memory, prediction.sharing
    if request.appetite is not None and memory < 1.0 and memory <= min(idle, sharing):
        tightest = min(devices, key=lambda state: fleet.predict((state,), request.job, request.appetite).memory)
        want = request.appetite.on(tightest.view.type, tightest.view.memory).want_bytes
        taken = tightest.unseen + request.job.memory
        return lending_help(tightest.view, want, len(tightest.claims) + 1, taken)
    if request.job.sla is not None and sharing < idle:
        return f"; alone there it would get at least {idle * memory:.2f}"
    most = _most_promised(request, prediction)
    if not most:
        ridden = any(state.view.engine is not None and state.view.engine.ridden for state in devices)
        return _AFTER_RIDERS if ridden else "; a less busy service would change it"
    impact, rate = fleet.impact(devices, request.job.memory), rate_of(request.rates, devices)
    gain = impact.gain(prediction.fraction * len(devices) * rate)
    if _at_whose_cost(impact, gain, rate, request.job.priority):
        return ""
    return f"; up to {most:.2f} can be promised here"


def _most_promised(request: Request, prediction: Prediction) -> float:
    """The largest SLA that would be kept; 0 for a job without one.

    What one needs is proportional to it. Rounded down, so that it is promised as it is told.
    """
    if request.job.sla is None:
        return 0.0
    kept = request.job.sla * prediction.fraction / request.least(prediction.uncertainty)
    return floor(100.0 * kept + _ROUNDING) / 100.0
