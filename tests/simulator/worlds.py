"""Short ways to a simulation."""

from collections.abc import Sequence

import numpy as np

from rowen.scheduler.policy import Policy
from rowen.simulator.feeds import example
from rowen.simulator.jobs import DEFAULT_CLASSES, Job, JobClass, arriving
from rowen.simulator.loop import Outcome, simulate
from rowen.simulator.node.engine import Engine
from rowen.simulator.node.service import RequestFeed
from rowen.simulator.requests import Requests
from rowen.simulator.shape import Shape
from rowen.simulator.variants import Name, variant

GIB = 1 << 30
SECOND_OF_WORK = Engine(prefill_seconds=1.0, prefill_tokens_per_second=1e9, decode_seconds=1e-9, decode_gap_seconds=0.1)
"""A request of any length is in flight for a second; the cooldown is 0.2 s."""


class Fixed:
    """Requests at given moments, by service; nothing for others."""

    def __init__(self, *moments: Sequence[float]) -> None:
        self.moments = moments

    def between(self, service: int, start: float, end: float) -> Requests:
        found = np.array(self.moments[service] if service < len(self.moments) else (), dtype=float)
        return Requests(found, np.ones(len(found)), np.ones(len(found))).between(start, end)


def kind(**fields: object) -> JobClass:
    """A class of jobs that need no memory of the pool."""
    return JobClass.model_validate({"name": "job", "want_bytes": 0, "curve": ((0, 1.0),), "loss": 0.0, **fields})


def job(number: int = 0, tokens: int = 10**9, arrival: float = 0.0, sla: float | None = None, **fields: object) -> Job:
    return Job(number, kind(**fields), arrival, tokens, sla)


def fixed(shape: Shape, source: Fixed, *jobs: Job, name: Name = Name.ROWEN) -> Outcome:
    return simulate(shape, RequestFeed(source), SECOND_OF_WORK, jobs, variant(name, Policy()))


def made_up(name: Name = Name.ROWEN, seed: int = 1, processes: int = 0, **fields: object) -> Outcome:
    shape = Shape.model_validate({"nodes": 4, "seconds": 3600.0, **fields})
    classes = (*DEFAULT_CLASSES, JobClass(name="wide", devices=min(2, shape.devices_per_node), mean_hours=0.5))
    jobs = arriving(classes, shape.devices, 0.6, 6, shape.seconds, seed)
    return simulate(shape, example(1.0, seed), Engine(), jobs, variant(name, Policy()), processes=processes)
