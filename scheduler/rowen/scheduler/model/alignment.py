"""The pairwise alignment score of devices' busy time."""

from rowen.crds.harvest.busy import BusyCells


def alignment(first: BusyCells | None, second: BusyCells | None) -> float:
    """A = overlapping busy time / union of busy time, in [0, 1]; 1 when both are never busy.

    0 where that of one is not known.
    """
    if first is None or second is None:
        return 0.0
    joined = (first.bits | second.bits).bit_count()
    return (first.bits & second.bits).bit_count() / joined if joined else 1.0
