"""What a device's gate is open for, over time."""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from coserving.device import RidingDevice

from rowen.node_agent.devices.counts import DeviceCounts

_PERIOD_SECONDS = 0.05


@dataclass(frozen=True)
class Sample:
    """One look."""

    at: float
    """Seconds since the first."""
    part: float
    """Of the device, that offline work may use; 1: all of it, with nothing in flight."""
    in_flight: bool


def part_open(counts: DeviceCounts) -> float:
    """Of the device, now."""
    if not counts.gate_open:
        return 0.0
    return 1.0 if counts.share is None else counts.share


def shared_fraction(samples: Sequence[Sample]) -> float:
    """Of the device and of the time in which requests are in flight, how much offline work may use."""
    beside = [sample.part for sample in samples if sample.in_flight]
    return sum(beside) / len(beside) if beside else 0.0


@contextlib.contextmanager
def sampled(device: RidingDevice) -> Iterator[list[Sample]]:
    """Looks at it all the time; the list grows."""
    samples: list[Sample] = []
    ended, begun = threading.Event(), time.monotonic()

    def look() -> None:
        while not ended.wait(_PERIOD_SECONDS):
            counts = device.counts
            at = round(time.monotonic() - begun, 3)
            samples.append(Sample(at, part_open(counts), counts.in_flight > 0))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()
