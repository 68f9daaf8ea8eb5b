"""What a report tells of the share of a device that offline work has beside requests."""

from rowen.crds.base import ReadModel
from rowen.crds.harvest.co_serving import Fraction


class Spatial(ReadModel):
    """What offline work might use of a device beside requests, over the window; to three digits."""

    share: Fraction
    """Mean fraction of the device that it might use while that was open beside requests."""
    open_fraction: Fraction
    """Fraction of the window in which the device was open beside requests."""
