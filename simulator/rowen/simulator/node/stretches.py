"""All services over the simulated time, stretch by stretch, worked out in other processes ahead of need."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rowen.simulator.arrays import Cells, Floats, Ints
from rowen.simulator.node.engine import Engine
from rowen.simulator.node.intervals import Intervals
from rowen.simulator.node.service import Carry, Feed, Hardware, Stretch


@dataclass(frozen=True, slots=True)
class Plan:
    """Services that are all served by engines of one kind."""

    feed: Feed
    engine: Engine
    hardware: Hardware
    services: int
    gates: bool
    """Whether it matters when each gate is closed, and not only how long."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """All services between the first edge and the last; a row each."""

    edges: Floats
    busy: Floats
    closed: Floats
    cells: Cells
    available: Floats
    gates: tuple[Intervals, ...]
    """Empty where they do not matter."""
    reclaims: Ints
    requests: Ints


Group = list[tuple[Stretch, Carry]]


def stretches(plan: Plan, edges: Floats, steps: int, processes: int) -> Iterator[Stretches]:
    """Stretches of so many steps, one after the other. With 0 processes all is done in this one.

    What comes out does not depend on the number of processes, nor on that of the steps.
    """
    with ProcessPoolExecutor(processes, initializer=_start, initargs=(plan,)) if processes else nullcontext() as pool:
        cuts = [edges[at : at + steps + 1] for at in range(0, len(edges) - 1, steps)]
        groups = [range(a, b) for a, b in pairwise(_bounds(plan.services, max(1, processes) * 4))]
        carries = [[Carry()] * len(group) for group in groups]
        waiting = _submit(pool, plan, groups, cuts[0], carries)
        for index, cut in enumerate(cuts):
            found = [part.result() if isinstance(part, Future) else part for part in waiting]
            carries = [[carry for _, carry in part] for part in found]
            if index + 1 < len(cuts) and pool:
                waiting = _submit(pool, plan, groups, cuts[index + 1], carries)
            yield _stacked(plan, cut, [stretch for part in found for stretch, _ in part])
            if index + 1 < len(cuts) and not pool:
                waiting = _submit(pool, plan, groups, cuts[index + 1], carries)


def _bounds(services: int, parts: int) -> list[int]:
    return sorted({round(services * part / parts) for part in range(parts + 1)})


def _submit(
    pool: Executor | None, plan: Plan, groups: Sequence[range], edges: Floats, carries: Sequence[list[Carry]]
) -> Sequence[Future[Group] | Group]:
    pairs = zip(groups, carries, strict=True)
    if pool is None:
        return [_advance(plan, group, edges, carry) for group, carry in pairs]
    return [pool.submit(_work, group, edges, carry) for group, carry in pairs]


_plan: list[Plan] = []
"""Of a process that works for another one."""


def _start(plan: Plan) -> None:
    _plan[:] = [plan]


def _work(services: range, edges: Floats, carries: Sequence[Carry]) -> Group:
    return _advance(_plan[0], services, edges, carries)


def _advance(plan: Plan, services: range, edges: Floats, carries: Sequence[Carry]) -> Group:
    return [
        _slim(plan, *plan.feed.advance(service, plan.engine, plan.hardware, edges, carry))
        for service, carry in zip(services, carries, strict=True)
    ]


def _slim(plan: Plan, stretch: Stretch, carry: Carry) -> tuple[Stretch, Carry]:
    return (stretch if plan.gates else stretch.without_gate()), carry


def _stacked(plan: Plan, edges: Floats, found: Sequence[Stretch]) -> Stretches:
    return Stretches(
        edges=edges,
        busy=np.stack([stretch.busy for stretch in found]),
        closed=np.stack([stretch.closed for stretch in found]),
        cells=np.stack([stretch.cells for stretch in found]),
        available=np.stack([stretch.available for stretch in found]),
        gates=tuple(stretch.gate for stretch in found) if plan.gates else (),
        reclaims=np.array([stretch.reclaims for stretch in found]),
        requests=np.array([stretch.requests for stretch in found]),
    )
