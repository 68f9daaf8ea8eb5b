"""Arms under requests: how each is replayed, and what the server and the jobs do by themselves."""

import time
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median

from colocation.measure import replayed
from coserving.arms import Arm
from coserving.load import Size, Traffic, poisson
from coserving.node import RIDER, CoservingNode
from coserving.result import Bounds, Run
from coserving.turns import Mode
from reporting.repeat import values_of

from rowen.demo.traffic.replay import Outcome
from rowen.demo.traffic.scaling import Request

SIZE = Size(prompt=(16, 96), output=32)
TTFT_FACTOR, TPOT_FACTOR = 10.0, 3.0
"""Bounds over the medians of the server alone."""
_SETTLE_SECONDS = 1.0
_REPORT_SECONDS = 30.0


@dataclass(frozen=True)
class Alone:
    """The server without any offline work and without waiting; medians in seconds."""

    ttft: float
    tpot: float
    size: Size = SIZE
    ttft_factor: float = TTFT_FACTOR
    tpot_factor: float = TPOT_FACTOR

    @property
    def request_seconds(self) -> float:
        """From a request's arrival to its end."""
        return self.ttft + self.tpot * (self.size.output - 1)

    @property
    def bounds(self) -> Bounds:
        """That a service of this speed may be given."""
        return Bounds(self.ttft_factor * self.ttft, self.tpot_factor * self.tpot)

    def traffic(self, load: float, seconds: float, block: int, seed: int) -> Traffic:
        """Of one run under such requests."""
        return Traffic(load, load / self.request_seconds, seconds, self.size, block, seed)


def warm_up(url: str, requests: int, size: Size = SIZE) -> list[Outcome]:
    """One request after another, of which the last half count."""
    prompts = poisson(100.0, requests / 50.0, size, "alone")[:requests]
    found: list[Outcome] = []
    for number in range(len(prompts)):
        found += replayed(url, [Request(0.0, prompts[number].prompt, size.output)], 0.0)
    return found[len(found) // 2 :]


def alone(url: str, requests: int, size: Size = SIZE) -> Alone:
    """The speed of the server at that address. Raises `RuntimeError` where it answers nothing."""
    outcomes = warm_up(url, requests, size)
    times = {metric: values_of(outcomes, metric) for metric in ("ttft", "tpot")}
    if not all(times.values()) or max(map(max, times.values())) == float("inf"):
        raise RuntimeError(f"{url} fails: {[outcome.error for outcome in outcomes if outcome.error]}")
    return Alone(median(times["ttft"]), median(times["tpot"]), size)


def tokens_by(now: float, request: Request, outcome: Outcome) -> float:
    """Of a request by that Unix time, read and written; its prompt counts with its first token, as vLLM counts."""
    if outcome.ttft is None or (since := now - outcome.arrival - outcome.ttft) < 0:
        return 0.0
    written = 1 + since / outcome.tpot if outcome.tpot else outcome.tokens
    return len(request.prompt) + min(outcome.tokens, written)


def measure(node: CoservingNode, name: str, arm: Arm, traffic: Traffic) -> Run:
    """Sets an arm up, lets it settle, and replays the requests.

    Work counts while requests come: after that whoever made them wait the longest would have the most time without any.

    Raises:
        OSError: As `Arm.arranged` does.
        RuntimeError: The job did nothing that can be told.
    """
    with arm.arranged(node):
        time.sleep(_SETTLE_SECONDS)
        start, unix_offset, requests = time.monotonic(), time.time() - time.monotonic(), traffic.requests()
        outcomes = replayed(node.url(arm.server), requests, traffic.seconds)
    end = start + traffic.seconds
    served = sum(map(partial(tokens_by, end + unix_offset), requests, outcomes))
    tokens = node.tokens(arm.tuner, start, end) if arm.tuner is not None else 0.0
    online, held = (
        (node.online_seconds(start, end), node.held_steps(start, end)) if arm.tuner == RIDER else (None, None)
    )
    return Run(
        arm=name,
        load=traffic.load,
        rate=traffic.rate,
        block=traffic.block,
        seconds=end - start,
        tokens=tokens,
        outcomes=tuple(outcomes),
        served_tokens=served,
        online_seconds=online,
        held_steps=held,
    )


def iteration_seconds(node: CoservingNode, tuner: str, iterations: int) -> float:
    """Of a job that has the device to itself."""
    turns = node.turns(tuner)
    turns.mode = Mode.FREE
    before = time.monotonic()
    while len(_of(node, tuner, before)) < iterations + 1:
        node.processes.check(before + _REPORT_SECONDS * iterations)
        time.sleep(0.01)
    found = _of(node, tuner, before)
    node.hold(tuner)
    return (found[iterations] - found[0]) / iterations


def _of(node: CoservingNode, tuner: str, since: float) -> list[float]:
    """Ends of iterations."""
    reports = node.reports(tuner)
    later = pairwise(reports)
    return [after.seconds for report, after in later if after.tokens > report.tokens and after.seconds > since]
