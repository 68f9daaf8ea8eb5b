"""For programs of one's own: tells Rowen how far they are (`docs/own-trainers.md`)."""

import math

from rowen.runtime.native import tenant


def progress(done: float, total: float, tokens: float) -> None:
    """Says how far this process is; takes a microsecond, and does nothing outside a job of Rowen.

    `done` of `total` units, whatever they are (steps, rows), with the work of earlier attempts: what `kubectl get ojob`
    shows. `tokens` that this process has worked through since it began: what throughput is measured by, so it never
    falls. Numbers of any kind, of which the whole part counts. Raises `ValueError` for those below zero or infinite.
    """
    if not all(0 <= number < math.inf for number in (done, total, tokens)):
        raise ValueError(f"progress({done}, {total}, {tokens}): expected numbers from 0 on")
    # The library takes whole numbers alone.
    tenant().progress(int(done), int(total), int(tokens))
