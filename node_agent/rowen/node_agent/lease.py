"""When the agent may let offline work run on."""

from rowen.crds.names import NODE_LEASE_SECONDS

RENEW_PERIOD = 0.25
"""Seconds between two renewals of a device's lease."""
DEVICE_LEASE = 2.0
"""Seconds that a device's lease lasts: an agent that is gone stops offline work within them."""


def lease_until(now: float, last_accepted: float | None) -> float | None:
    """Until when offline work may run, or None for no longer than it may already.

    `last_accepted` is when the last heartbeat or report that the API server accepted was sent. The lease never outlasts
    the assignments, which the scheduler counts from when it heard that.
    """
    if last_accepted is None or now >= last_accepted + NODE_LEASE_SECONDS:
        return None
    return min(now + DEVICE_LEASE, last_accepted + NODE_LEASE_SECONDS)
