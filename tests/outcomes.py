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
    lateness: float = 0.0,
    lag: float = 0.0,
) -> Outcome:
    return Outcome(arrival, lateness, arrival + seconds, ttft, tpot, tokens, error, lag)
