"""The assignment of jobs to their options that harvests most, by HiGHS.

    maximise    sum over j, s of gain(j, s) x(j, s),      x(j, s) in {0, 1}
    subject to  sum over s of x(j, s) <= 1                for each job, = 1 for those that keep a place,
                sum of x(j, s) over all s that touch t <= 1   for each device and each claim t,
                sum of devices(j) x(j, s) over s on n <= free slots of n   for each node.

No clock ends the search, and it has one thread and a fixed seed: the same options have the same answer.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence

import highspy
import numpy as np

from rowen.scheduler.placement.fleet.columns import Numbers
from rowen.scheduler.placement.joint.options import Option

_MOST_NODES = 10
"""Of HiGHS's tree. Nearly all take one; hundreds would take longer than a scheduler's lease."""
_EARLIER = 1e-4
"""Part of a gain by which the first of the queue goes before the last where the total is the same otherwise."""
_BY_NAME = 1e-7
"""Devices by which a place goes before the next one of its job's, if that is the first of the queue."""
_SCALE = 1e3
"""HiGHS's tolerances are absolute, and have to be below these."""


def assigned(
    options: Sequence[Option], keep: Collection[int], free_slots: Mapping[str, int], near: float = 0.0
) -> dict[int, Option] | None:
    """Each job's option, by number; None where HiGHS does not come to an optimum.

    `options`: by number, of each job in order; `keep`: the jobs that have to have a place. `near`: part
    of the optimum by which the answer may be off.
    """
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in (
        ("output_flag", False), ("threads", 1), ("parallel", "off"), ("random_seed", 0),
        ("mip_rel_gap", near), ("mip_abs_gap", 0.0), ("mip_max_nodes", _MOST_NODES),
    ):  # fmt: skip
        solver.setOptionValue(name, value)
    solver.passModel(_model(options, keep, free_slots))
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    taken = np.flatnonzero(np.array(solver.getSolution().col_value) > 0.5).tolist()
    return {options[at].number: options[at] for at in taken}


def _model(options: Sequence[Option], keep: Collection[int], free_slots: Mapping[str, int]) -> highspy.HighsLp:
    numbers: dict[Hashable, int] = {}
    """Of each constraint."""
    lower: list[float] = []
    upper: list[float] = []
    starts, rows, factors = [0], list[int](), list[float]()

    def enter(key: Hashable, factor: float, least: float, most: float) -> None:
        if key not in numbers:
            numbers[key] = len(numbers)
            lower.append(least)
            upper.append(most)
        rows.append(numbers[key])
        factors.append(factor)

    for one in options:
        count, node = len(one.candidate.devices), one.candidate.node
        enter(("job", one.number), 1.0, 1.0 if one.number in keep else 0.0, 1.0)
        enter(("node", node), count, 0.0, free_slots[node])
        for key in sorted(one.touched, key=str):
            enter(("touched", key), 1.0, 0.0, 1.0)
        starts.append(len(rows))
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(options), len(numbers)
    model.col_cost_, model.sense_ = _worth(options), highspy.ObjSense.kMaximize
    model.col_lower_, model.col_upper_ = np.zeros(len(options)), np.ones(len(options))
    model.row_lower_, model.row_upper_ = np.array(lower), np.array(upper)
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(options)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_ = np.array(starts, np.int32), np.array(rows, np.int32)
    model.a_matrix_.value_ = np.array(factors)
    return model


def _worth(options: Sequence[Option]) -> Numbers:
    """What is harvested, and by so little that it decides among equals alone: the queue's order, then the names."""
    gains = np.array([one.candidate.gain for one in options])
    numbers = np.array([one.number for one in options])
    first = np.searchsorted(numbers, numbers)
    earlier = 1.0 - numbers / (numbers[-1] + 1)
    worth: Numbers = gains + earlier * (_EARLIER * gains - _BY_NAME * (np.arange(len(options)) - first))
    return _SCALE * worth
