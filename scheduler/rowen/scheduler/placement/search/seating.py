"""The search for a seat in an engine, and why there is none."""

from dataclasses import dataclass

import numpy as np

from rowen.scheduler.model.prediction import Prediction
from rowen.scheduler.model.rider import Rider
from rowen.scheduler.placement.eligibility import exclusion
from rowen.scheduler.placement.fleet.columns import NEVER, Flags, Numbers
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.fleet.forecast import riding
from rowen.scheduler.placement.fleet.seats import Engines, Seats, seat_refusal
from rowen.scheduler.placement.fleet.states import DeviceState
from rowen.scheduler.placement.search.evaluation import backed_off, rate_of
from rowen.scheduler.placement.search.request import LEAST_FRACTION, Candidate, Request, seat_told
from rowen.scheduler.snapshot import JobView


@dataclass(frozen=True, slots=True)
class Seating:
    """The seat that suits a job best."""

    candidate: Candidate | None = None
    refusal: str = ""
    """Why there is none; empty too where nobody would think of one: no engine of its namespace takes jobs in."""


NO_SEATING = Seating()


def has_engine(job: JobView, seats: Seats) -> bool:
    """Whether an engine could compute the job, with a free seat or without."""
    rider, engines = job.rider, _engines_for(job, seats)
    return rider is not None and engines is not None and not all(rider.obstacle_in(args) for args in engines.args)


def may_ride(job: JobView, seats: Seats) -> bool:
    """Whether there is a free seat beside its model, for it or for others. Much less work than a search."""
    engines = _engines_for(job, seats)
    return engines is not None and not engines.full


def _engines_for(job: JobView, seats: Seats) -> Engines | None:
    """The engines of its model, if it is one that may ride."""
    rider = job.rider
    if rider is None or rider.obstacle or job.status.ride_refused:
        return None
    return seats.serving(job.namespace, rider.model)


def seated(request: Request, fleet: Fleet, seats: Seats) -> Seating:
    """The seat that gives the job most and keeps every promise; if none does, why not."""
    job, rider = request.job, request.job.rider
    if rider is None or job.namespace not in seats.namespaces:
        return NO_SEATING
    if job.status.ride_refused:
        return Seating(refusal=f"it rides no more: {job.status.ride_refused}")
    if rider.obstacle:
        return Seating(refusal=rider.obstacle)
    engines = seats.serving(job.namespace, rider.model)
    if engines is None:
        return Seating(refusal="no engine that takes jobs in serves its model")
    return _best(request, rider, fleet, engines)


def _best(request: Request, rider: Rider, fleet: Fleet, engines: Engines) -> Seating:
    obstacles = [rider.obstacle_in(args) for args in engines.args]
    suited = np.array([not obstacle for obstacle in obstacles], np.bool_)[engines.args_of]
    if not suited.any():
        return Seating(refusal=obstacles[0])
    keys = np.where(suited, engines.keys, NEVER)
    if keys.max() == NEVER:
        return Seating(refusal=_told(_first_best(suited, fleet, engines)))
    allowed = _allowed(request, fleet, engines)
    open_ = keys if allowed is None else np.where(allowed, keys, NEVER)
    if open_.max() == NEVER:
        state = _first_best(keys, fleet, engines)
        return Seating(refusal=_told(state, _kept_away(request, state)))
    # One that gives less may give it for sure.
    enough = open_ >= request.seat_least(engines.uncertainties)
    among = enough if enough.any() else open_ > NEVER
    made = open_ * fleet.rates(request.rates)[engines.rows] if request.rates else open_
    state = _first_best(np.where(among, made, NEVER), fleet, engines)
    prediction = riding(state, len(state.riders) + 1)
    short = _shortfall(request, prediction)
    if short:
        return Seating(refusal=_told(state, short))
    # Those who ride have the same together, however many they are.
    rate = rate_of(request.rates, (state,))
    gain = 0.0 if state.riders else prediction.fraction * rate
    return Seating(Candidate(state.view.node, (state.view.id,), prediction, "", gain, rate, rides=True))


def _first_best(values: Numbers | Flags, fleet: Fleet, engines: Engines) -> DeviceState:
    """The device of the engine that has the greatest of the values, of several the first."""
    return fleet.device(int(engines.rows[int(values.argmax())]))


def _allowed(request: Request, fleet: Fleet, engines: Engines) -> Flags | None:
    """The engines on nodes where the job may be; None for all."""
    eligible = fleet.eligible_rows(request.job.constraints)
    found = None if eligible is None else eligible[engines.rows]
    if not request.avoided:
        return found
    numbers = [fleet.number[name] for name in request.avoided if name in fleet.number]
    away = ~fleet.columns.on(numbers)[engines.rows] & (not request.barred)
    return away if found is None else found & away


def _kept_away(request: Request, state: DeviceState) -> str:
    node = state.node.view
    return exclusion(node, request.job.constraints) or backed_off(request, node.name) or request.away.get(node.name, "")


def _shortfall(request: Request, prediction: Prediction) -> str:
    if request.job.sla is None:
        return "" if prediction.fraction >= LEAST_FRACTION else f"{seat_told(prediction)}: nothing to give"
    margin = request.seat_promise.margin(prediction.uncertainty)
    if prediction.fraction >= request.job.sla + margin:
        return ""
    return f"{seat_told(prediction)} < SLA {request.job.sla:.2f} + margin {margin:.2f}"


def _told(state: DeviceState, refusal: str = "") -> str:
    return f"{state.view.node}/{state.view.id}: {refusal or seat_refusal(state)}"
