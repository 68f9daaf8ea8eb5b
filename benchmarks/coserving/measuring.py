"""Arms under requests: how each is replayed, and what the server and the jobs do by themselves."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from colocation.measure import replayed
from coserving.arms import Arm
from coserving.load import Size, poisson
from coserving.node import CoservingNode
from coserving.reports import tokens_between
from coserving.result import Bounds, Run
from coserving.turns import Mode
from reporting.repeat import values_of

from rowen.demo.traffic.replay import Outcome
from rowen.demo.traffic.scaling import Request

SIZE = Size(prompt=(16, 96), output=32)
TTFT_FACTOR, TPOT_FACTOR = 10.0, 3.0
"""Bounds over the medians of the server alone."""
_SETTLE_SECONDS, _TELL_SECONDS = 1.0, 2.5
_REPORT_SECONDS = 30.0


@dataclass(frozen=True)
class Alone:
    """The server without any offline work and without waiting; medians in seconds."""

    ttft: float
    tpot: float
    output: int = SIZE.output
    """Tokens of each answer."""
    ttft_factor: float = TTFT_FACTOR
    tpot_factor: float = TPOT_FACTOR

    @property
    def request_seconds(self) -> float:
        """From a request's arrival to its end."""
        return self.ttft + self.tpot * (self.output - 1)

    @property
    def bounds(self) -> Bounds:
        """That a service of this speed may be given."""
        return Bounds(self.ttft_factor * self.ttft, self.tpot_factor * self.tpot)


def warm_up(node: CoservingNode, server: str, requests: int, size: Size = SIZE) -> list[Outcome]:
    """One request after another, of which the last half count."""
    prompts = poisson(100.0, requests / 50.0, size, seed=1)[:requests]
    found: list[Outcome] = []
    for number in range(len(prompts)):
        found += replayed(node.url(server), [Request(0.0, prompts[number].prompt, size.output)], 0.0)
    return found[len(found) // 2 :]


def alone(node: CoservingNode, server: str, requests: int, size: Size = SIZE) -> Alone:
    """The server's speed. Raises `RuntimeError` where it answers nothing."""
    outcomes = warm_up(node, server, requests, size)
    times = {metric: values_of(outcomes, metric) for metric in ("ttft", "tpot")}
    if not all(times.values()) or max(map(max, times.values())) == float("inf"):
        raise RuntimeError(f"{server} fails: {[outcome.error for outcome in outcomes if outcome.error]}")
    return Alone(median(times["ttft"]), median(times["tpot"]), size.output)


def measure(
    node: CoservingNode, name: str, arm: Arm, load: float, rate: float, block: int, seconds: float, size: Size = SIZE
) -> Run:
    """Sets an arm up, lets it settle, and replays requests of the rate. Raises `OSError` as `Arm.arranged` does."""
    requests: Sequence[Request] = poisson(rate, seconds, size, block) if rate else ()
    with arm.arranged(node):
        time.sleep(_SETTLE_SECONDS)
        start, before = time.monotonic(), _online_seconds(node)
        outcomes = replayed(node.url(arm.server), requests, seconds)
        end = time.monotonic()
        if arm.tuner is not None and not requests:
            _await_report(node, arm.tuner, end)
    tokens = 0.0 if arm.tuner is None else tokens_between(node.reports(arm.tuner), start, end)
    online = None
    if arm.tuner == "rider":
        # The engine tells once a second, and its line to the agent passes that on once a second.
        time.sleep(_TELL_SECONDS)
        online = _online_seconds(node) - before
    return Run(name, load, rate, block, end - start, tokens, tuple(outcomes), online)


def _online_seconds(node: CoservingNode) -> float:
    """What Rowen's server has worked for requests, as it has told."""
    sums = node.device.sums
    return 0.0 if sums is None else sums.seconds - sums.added_seconds


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


def _await_report(node: CoservingNode, tuner: str, since: float) -> None:
    while not any(report.seconds > since for report in node.reports(tuner)):
        node.processes.check(since + _REPORT_SECONDS)
        time.sleep(0.01)
