"""For programs of one's own: tells Rowen how far they are (`docs/own-trainers.md`)."""

from rowen.runtime.native import tenant


def progress(done: int, total: int, tokens: int) -> None:
    """Says how far this process is; takes a microsecond, and does nothing outside a job of Rowen.

    `done` of `total` units, whatever they are (steps, rows), with the work of earlier attempts: what `kubectl get ojob`
    shows. `tokens` that this process has worked through since it began: what throughput is measured by, so it never
    falls. Raises `ValueError` for numbers below zero.
    """
    if min(done, total, tokens) < 0:
        raise ValueError(f"progress({done}, {total}, {tokens}): expected numbers from 0 on")
    tenant().progress(done, total, tokens)
