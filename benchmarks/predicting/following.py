"""What the engine pays in each step for knowing what its requests have and need, whether anything rides or not."""

import statistics
import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from rowen.crds.ride.terms import LatencyBound, RideTerms
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.planner import Planner
from rowen.runtime.coserve.planning.predictor import Predictor
from rowen.runtime.vllm.riding.boarded import Boarded
from rowen.runtime.vllm.riding.conductor import Conductor
from rowen.runtime.vllm.riding.waker import Waker

_PROMPT_TOKENS = 100


def step_microseconds(predictor: Predictor, requests: int, steps: int) -> float:
    """Of all that is done around a step in which so many requests decode, while nobody has a seat; the median.

    The engine's clock goes on by what a step takes, so nobody is late and nothing is new to the predictor.
    """
    seconds = predictor.seconds(Load(requests, requests * _PROMPT_TOKENS))
    bound = LatencyBound(percentile=99.0, seconds=2 * seconds)
    terms = RideTerms(ttft=LatencyBound(percentile=99.0, seconds=20 * seconds), tpot=bound, memory_bytes=1)
    now = [0.0]
    conductor = Conductor(Planner(terms, predictor), _nobody(), Waker(), lambda: now[0])
    return statistics.median(_taken(conductor, _outputs(requests, steps), now, seconds)) / 1000


class _Seat(SimpleNamespace):
    """That nobody has."""

    def __init__(self) -> None:
        super().__init__(take=list, tell=lambda *_: None)
        self._clock = time.pthread_getcpuclockid(threading.get_ident())

    @property
    def worked_seconds(self) -> float:
        """Asked of a thread's clock, as of a real one."""
        return time.clock_gettime(self._clock)


def _nobody() -> Boarded:
    """All that riding takes, and nobody who rides: stand-ins that answer as the real ones do then."""
    learner: Any = SimpleNamespace(waiting_tokens=0, upcoming=lambda _: None, finished=list)
    guests: Any = _Seat()
    hooks: Any = SimpleNamespace(disarm=lambda: None)
    files: Any = SimpleNamespace(check=lambda _: None)
    return Boarded(learner, guests, hooks, files)


def _taken(conductor: Conductor, outputs: Sequence[Any], now: list[float], seconds: float) -> list[int]:
    """Nanoseconds of each step but the first."""
    clock, found = time.perf_counter_ns, []
    for output in outputs:
        begun = clock()
        conductor.begin(output)
        between = clock()
        now[0] += seconds
        again = clock()
        conductor.finish()
        found.append(between - begun + clock() - again)
    return found[1:]


def _outputs(requests: int, steps: int) -> list[Any]:
    """As vLLM's scheduler makes them of requests that all decode."""
    names = [f"cmpl-{number:032x}-0" for number in range(requests)]
    return [
        SimpleNamespace(
            finished_req_ids=set(),
            num_scheduled_tokens=dict.fromkeys(names, 1),
            total_num_scheduled_tokens=requests,
            scheduled_new_reqs=[],
            scheduled_cached_reqs=SimpleNamespace(
                req_ids=names,
                num_computed_tokens=[_PROMPT_TOKENS + generated] * requests,
                num_output_tokens=[generated] * requests,
            ),
        )
        for generated in range(1, steps + 1)
    ]
