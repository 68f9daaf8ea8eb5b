"""Latencies of requests, and what of each may be put down to whom. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from rowen.demo.traffic.replay import Outcome
from rowen.demo.verdict.exposure import Exposure


@dataclass(frozen=True)
class Sample:
    """One latency of one request, and what of it may be put down to whom. Seconds."""

    seconds: float
    exposure: Exposure
    late: float = 0.0
    """The replayer's own delay."""
    way: float = 0.0
    """Until the gate closed: offline work may have kept the engine from its device, or the machine was busy."""
    stop: float = 0.0
    """Most that the stop of offline work can have taken of it."""
    lag: float = 0.0
    """Most that the replayer's late reading can have taken of it."""

    @property
    def served(self) -> float:
        """What is neither the replayer's nor a stop's."""
        return self.seconds - self.stop - self.late - self.lag


def ttft_samples(found: Iterable[tuple[Outcome, Exposure]]) -> list[Sample]:
    """Times to first token. A stop delays the request that meets it and all that wait behind that one."""
    return [
        Sample(outcome.ttft, exposure, max(0.0, outcome.lateness), exposure.way, exposure.stop, outcome.lag)
        for outcome, exposure in found
        if outcome.ttft is not None
    ]


def tpot_samples(found: Iterable[tuple[Outcome, Exposure]]) -> list[Sample]:
    """Times per output token. A stop slows the tokens that are written before it is over."""
    return [
        Sample(
            outcome.tpot,
            exposure,
            stop=max(0.0, exposure.still - outcome.arrival - outcome.ttft) / (outcome.tokens - 1),
            lag=outcome.lag / (outcome.tokens - 1),
        )
        for outcome, exposure in found
        if outcome.ttft is not None and outcome.tpot is not None
    ]
