"""When the agent may let offline work run on."""

RENEW_PERIOD = 0.25
"""Seconds between two renewals of a device's lease."""
DEVICE_LEASE = 2.0
"""Seconds that a device's lease lasts: an agent that is gone stops offline work within them."""
ASSIGNMENT_LEASE = 15.0
"""Seconds that an assignment outlives the node's last accepted report; the scheduler gives it away after them."""


def lease_until(now: float, last_accepted: float | None) -> float | None:
    """Until when offline work may run, or None for no longer than it may already.

    `last_accepted` is when the API server last accepted a report that was sent then. The lease never outlasts the
    assignments, which the scheduler counts from the report's time.
    """
    if last_accepted is None or now >= last_accepted + ASSIGNMENT_LEASE:
        return None
    return min(now + DEVICE_LEASE, last_accepted + ASSIGNMENT_LEASE)
