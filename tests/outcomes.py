"""Outcomes for the demo's tests."""

from rowen.demo.traffic.replay import Outcome


def outcome(
    arrival: float = 0.0,
    *,
    seconds: float = 1.0,
    ttft: float | None = 0.05,
    tpot: float | None = 0.02,
    tokens: int = 8,
    error: str | None = None,
) -> Outcome:
    return Outcome(arrival, 0.0, arrival + seconds, ttft, tpot, tokens, error)
