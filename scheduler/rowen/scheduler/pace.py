"""How often the scheduler passes. Pure."""

_LEAST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 20.0


def pause_seconds(worked: float, failures: int) -> float:
    """How long to rest after a pass that took `worked` seconds of the processor, or after failures in a row.

    A large cluster reports all the time, so there is always a reason for the next pass: passes may take a fifth of
    the processor, no more.
    """
    again = 2.0 ** min(failures, 10) if failures else 0.0
    return min(_LONGEST_PAUSE_SECONDS, max(_LEAST_PAUSE_SECONDS, 4.0 * worked, again))
