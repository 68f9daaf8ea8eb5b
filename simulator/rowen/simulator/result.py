"""Figures of a simulation, as one JSON object.

As in Valve's evaluation (section 7): the *gain in utilisation* is the part of all device time in which offline work
computes, in points; the *devices saved* are, for every job, its throughput over its throughput alone, times its
devices, added up: so many devices of their own would have done the same offline work in the same time.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rowen.scheduler.policy import Policy
from rowen.simulator.arrays import Floats
from rowen.simulator.loop import Outcome
from rowen.simulator.running import Progress

_MOST_POINTS = 1000
_DWELL_SECONDS = Policy().dwell_seconds
_QUANTILES = tuple(index / 20 for index in range(21))


def result(outcome: Outcome) -> dict[str, Any]:
    """The object; every figure's unit is in its name, fractions are of 1."""
    ledger, shape = outcome.ledger, outcome.shape
    time, seconds = ledger.time(), ledger.seconds
    free = ledger.open_by_device.sum()
    return {
        "shape": shape.model_dump(mode="json"),
        "figures": {
            "utilisation_gain_points": _rounded(100.0 * time.harvested / time.total),
            "utilisation_without_points": _rounded(100.0 * time.online / time.total),
            "harvestable_points": _rounded(100.0 * float(free) / time.total),
            "harvest_efficiency": _rounded(time.harvested / float(free)) if free > 0 else None,
            "devices_saved": _rounded(devices_saved(outcome.jobs, seconds)),
            **sla_figures(outcome.jobs, seconds),
            "prediction_error_mean_absolute": _mean([abs(error) for error in outcome.prediction_errors]),
        },
        "device_seconds": {
            "online": _rounded(time.online),
            "cooldown": _rounded(time.cooldown),
            "harvested": _rounded(time.harvested),
            "idle": _rounded(time.idle),
            "total": _rounded(time.total),
        },
        "counts": {
            "requests": outcome.counts.requests,
            "reclaims": outcome.counts.reclaims,
            "scheduling_passes": outcome.counts.passes,
            "prediction_windows": len(outcome.prediction_errors),
            **job_counts(outcome.jobs),
        },
        "classes": classes(outcome.jobs, seconds),
        "quantiles": {
            "probability": list(_QUANTILES),
            **{name: _quantiles(values) for name, values in distributions(outcome).items()},
        },
        "series": _series(outcome),
    }


def devices_saved(jobs: Iterable[Progress], seconds: float) -> float:
    """Devices of their own that would have done the jobs' work in the same time."""
    return sum(job.tokens / job.job.kind.tokens_per_second * job.devices for job in jobs) / seconds


def sla_figures(jobs: Sequence[Progress], seconds: float) -> dict[str, float | None]:
    """What became of the jobs with an SLA; a fraction is None without jobs to count.

    - `sla_attainment_placed`: of those that were placed, the part that got what the SLA says since they were placed
      first. Waiting for another place after an eviction counts, waiting for the first one does not: nothing was
      promised then. Jobs that were placed less than the monitor's dwell ago, or before they finished, are left out.
    - `sla_refused`: how many were never placed, and had arrived a dwell or more before the end.
    - `sla_attainment`: the same part of both together; who was refused did not get it. This one compares schedulers:
      to refuse the hard ones raises the first.
    """
    kept = [float(kept) for job in jobs if (kept := job.kept(seconds, _DWELL_SECONDS)) is not None]
    refused = sum(job.refused(seconds, _DWELL_SECONDS) for job in jobs)
    return {
        "sla_attainment": _mean([*kept, *[0.0] * refused]),
        "sla_attainment_placed": _mean(kept),
        "sla_refused": refused,
    }


def job_counts(jobs: Sequence[Progress]) -> dict[str, Any]:
    """How many jobs came how far."""
    evictions: dict[str, int] = {}
    for job in jobs:
        for reason, count in job.evictions.items():
            evictions[reason] = evictions.get(reason, 0) + count
    return {
        "jobs": len(jobs),
        "jobs_placed": sum(job.placed is not None for job in jobs),
        "jobs_finished": sum(job.finished is not None for job in jobs),
        "evictions": dict(sorted(evictions.items())),
    }


def classes(jobs: Sequence[Progress], seconds: float) -> dict[str, Any]:
    """The same by class of jobs."""
    names = sorted({job.job.kind.name for job in jobs})
    groups = {name: [job for job in jobs if job.job.kind.name == name] for name in names}
    return {
        name: {
            **job_counts(group),
            "devices_saved": _rounded(devices_saved(group, seconds)),
            **sla_figures(group, seconds),
            "throughput_mean": _mean([rate for job in group if (rate := job.throughput(seconds)) is not None]),
        }
        for name, group in groups.items()
    }


def distributions(outcome: Outcome) -> dict[str, Floats]:
    """Values whose distribution is shown: of devices over the whole time, and of jobs."""
    ledger = outcome.ledger
    rates = [rate for job in outcome.jobs if (rate := job.throughput(ledger.seconds)) is not None]
    return {
        "device_online_fraction": ledger.online_by_device / ledger.seconds,
        "device_used_fraction": (ledger.online_by_device + ledger.harvested_by_device) / ledger.seconds,
        "job_throughput_fraction": np.array(rates),
    }


def _series(outcome: Outcome) -> dict[str, Any]:
    """Means over equal stretches, as many as fit."""
    rows = outcome.ledger.series()
    size = -(-len(rows) // _MOST_POINTS)
    parts = [rows[at : at + size].mean(axis=0) for at in range(0, len(rows), size)]
    step = outcome.shape.step_seconds
    return {
        "start_seconds": [at * step for at in range(0, len(rows), size)],
        "online": [_rounded(float(part[0])) for part in parts],
        "cooldown": [_rounded(float(part[1])) for part in parts],
        "harvested": [_rounded(float(part[2])) for part in parts],
    }


def _quantiles(values: Floats) -> list[float] | None:
    return [_rounded(float(value)) for value in np.quantile(values, _QUANTILES)] if len(values) else None


def _mean(values: Sequence[float]) -> float | None:
    return _rounded(sum(values) / len(values)) if values else None


def _rounded(value: float) -> float:
    return round(value, 6)
