"""The seats in engines while a pass decides: which engine gives a newcomer most."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rowen.scheduler.device import EngineView
from rowen.scheduler.model.rider import assumed_part
from rowen.scheduler.placement.fleet.columns import NEVER, Columns, Numbers, Rows
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.fleet.forecast import riding
from rowen.scheduler.placement.fleet.states import DeviceState

Model = tuple[str, str]
"""Namespace, and reference of the model."""


def seat_refusal(state: DeviceState) -> str:
    """Why nobody else rides in the engine of the device; empty where there is a seat."""
    engine = state.view.engine
    if state.node.refusal or state.view.closed:
        return state.node.refusal or state.view.closed
    if engine is not None and engine.ended:
        return f"nothing rides in its engine any more: {engine.ended}"
    if engine is None or not engine.takes:
        return "its engine takes no jobs in yet"
    if state.shared:
        return "a job runs beside its engine"
    if state.taken and state.view.restraint:
        return f"{state.view.restraint}: {state.view.id} has one"
    if len(state.riders) >= engine.seats:
        return f"no free seat ({engine.seats} taken)"
    return _broken_promise(state)


def _broken_promise(state: DeviceState) -> str:
    """Whose promise a newcomer would break."""
    after = riding(state, len(state.riders) + 1)
    for claim in state.riders.values():
        if claim.short:
            return f"{claim.label} falls short of its SLA {claim.promise.sla:.2f} already"
        need = claim.promise.need(after.uncertainty)
        if after.fraction < need:
            return f"{claim.label} would fall to {after.fraction:.2f} < its SLA with margin {need:.2f}"
    return ""


@dataclass(slots=True)
class Engines:
    """Those that serve one model in one namespace."""

    rows: Rows
    keys: Numbers
    """What a newcomer gets; `NEVER` where there is no seat."""
    uncertainties: Numbers
    """Relative standard deviation of that."""
    args: Sequence[tuple[str, ...]]
    """All that there are, each once."""
    args_of: Rows
    """Of each row its place among these."""

    @property
    def full(self) -> bool:
        """Whether there is no seat in any of them."""
        return bool(self.keys.max() == NEVER)


@dataclass(slots=True)
class _Found:
    rows: list[int] = field(default_factory=list)
    views: list[EngineView] = field(default_factory=list)

    def entered(self, columns: Columns) -> Engines:
        """As they are while nobody has a place on their nodes."""
        rows = np.array(self.rows, np.intp)
        takes = columns.open[rows] & np.array([view.takes for view in self.views], np.bool_)
        args = dict.fromkeys(view.served.args for view in self.views)
        number = {one: at for at, one in enumerate(args)}
        args_of = np.array([number[view.served.args] for view in self.views], np.intp)
        given = assumed_part(columns.share[rows])
        keys = np.where(takes, given, NEVER)
        return Engines(rows, keys, columns.deviation[rows] / given, list(args), args_of)


class Seats:
    """All engines in which jobs ride, by what they serve. They are entered when one is asked for first."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._seen = 0
        self._taken: set[int] = set()
        """Rows on which somebody was."""

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """Where there are any."""
        return frozenset(namespace for namespace, _ in self._engines)

    def serving(self, namespace: str, model: str) -> Engines | None:
        """The engines of the namespace that serve the model, as they are now; None where there are none."""
        engines = self._engines.get((namespace, model))
        if engines is not None:
            self._refresh()
        return engines

    @cached_property
    def _engines(self) -> dict[Model, Engines]:
        fleet, found = self._fleet, dict[Model, _Found]()
        for number, view in enumerate(fleet.views):
            for at, engine in view.engines:
                of_model = found.setdefault((engine.served.namespace, engine.served.model), _Found())
                of_model.rows.append(fleet.columns.first(number) + at)
                of_model.views.append(engine)
        columns = fleet.settled()
        return {model: of_model.entered(columns) for model, of_model in found.items()}

    @cached_property
    def _at(self) -> dict[int, tuple[Engines, int]]:
        return {row: (each, at) for each in self._engines.values() for at, row in enumerate(each.rows.tolist())}

    def _refresh(self) -> None:
        """Takes into account who has come and gone since."""
        moved = self._fleet.moved
        for number in dict.fromkeys(moved[self._seen :]):
            for state in self._fleet.node(number).rows:
                if state.claims or state.riders:
                    self._taken.add(state.row)
                if state.row in self._taken and state.row in self._at:
                    engines, at = self._at[state.row]
                    found = riding(state, len(state.riders) + 1)
                    engines.keys[at] = NEVER if seat_refusal(state) else found.fraction
                    engines.uncertainties[at] = found.uncertainty
        self._seen = len(moved)
