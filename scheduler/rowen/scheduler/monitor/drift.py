"""Whether a node is no longer what a promise was made for, before the throughput over a whole window says so."""


def drifted(drift: float, promised: float, expected: float, covered: float, elapsed: float) -> float:
    """Seconds of the promised throughput that reports have fallen short of: a one-sided CUSUM (Page, 1954).

    `promised` and `expected` (by the latest report) are fractions; what the margin or the report's own noise covers,
    the relative shortfall `covered`, counts as nothing, and what exceeds the promise pays back. `elapsed`: seconds
    since the report before.
    """
    if promised <= 0.0:
        return 0.0
    return max(0.0, drift + elapsed * (1.0 - covered - expected / promised))
