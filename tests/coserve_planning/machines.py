"""Engines that take a stated time for a step, and planners for them."""

from dataclasses import dataclass

from rowen.crds.ride.terms import LatencyBound, RideTerms
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.planner import Planner
from rowen.runtime.coserve.planning.predictor import Predictor


def terms(tpot: float = 0.05, ttft: float = 1.0, percentile: float = 99.0) -> RideTerms:
    return RideTerms(
        ttft=LatencyBound(percentile=percentile, seconds=ttft),
        tpot=LatencyBound(percentile=percentile, seconds=tpot),
        memory_bytes=2**20,
    )


def step_seconds(load: Load) -> float:
    """Weights are read for 15 ms; what is computed beside that takes longer from four tokens on."""
    tokens = load.decode_rows + load.prefill_tokens + load.ride_tokens + load.row_tokens
    context = load.decode_context + load.prefill_context + load.ride_context + load.row_context
    riding = 0.002 if load.ride_tokens else 0.0
    return 0.015 + 0.0005 * max(0, tokens - 4) + 0.0002 * load.decode_rows + 1e-6 * context + riding


def part_seconds(tokens: int) -> float:
    """Of a part between steps."""
    return 0.001 + 0.0003 * tokens


@dataclass(frozen=True)
class Guest:
    """Whose adapter and sequences cost so many times what is usual."""

    ride_cost: float = 1.0
    part_cost: float = 1.0
    token_context: int = 100
    """What each of its tokens attends to."""


LOADS = [Load(rows, rows * each) for rows in (1, 2, 4, 6, 8) for each in (50, 200, 500)]


def riding(load: Load, tokens: int, token_context: int = 100, rider: int | None = None) -> Load:
    return Load(
        load.decode_rows,
        load.decode_context,
        load.prefill_tokens,
        load.prefill_context,
        tokens,
        tokens * token_context,
        load.row_tokens,
        load.row_context,
        rider,
    )


def taught(rounds: int = 6, slowness: float = 1.0) -> Predictor:
    """Knows the machine of `step_seconds`."""
    predictor = Predictor()
    for _ in range(rounds):
        for load in LOADS:
            for tokens in (0, 4, 16, 48, 128):
                ridden = riding(load, tokens)
                predictor.observe(ridden, slowness * step_seconds(ridden))
        for tokens in (16, 64, 200):
            prompt = Load(0, 0, tokens, tokens * tokens // 2)
            predictor.observe(prompt, slowness * step_seconds(prompt))
    return predictor


def planner(**changed: float) -> Planner:
    return Planner(terms(**changed), taught())
