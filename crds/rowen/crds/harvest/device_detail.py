"""What an agent tells of a device by HTTP: its report, and what is of use only at that moment and on that node."""

from rowen.crds.harvest.node_harvest import DeviceHarvest, Quantiles


class DeviceDetail(DeviceHarvest):
    """A device, as `/v1/devices` of its agent has it."""

    in_flight: int = 0
    """Requests in flight now, and one more for each engine process that has work."""
    stops: Quantiles | None = None
    """From the online side turning busy to the last offline thread stopped, over the window, in seconds."""
    per_request_max: int = 0
    """Most preemptions that one online request has met over the window."""
