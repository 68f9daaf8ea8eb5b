"""The machine's own jitter, beside which short times are quoted."""

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Jitter:
    """How much a sleep of 1 ms overshoots, while something is measured. Milliseconds."""

    def __init__(self) -> None:
        self.samples: list[float] = []

    def raw(self) -> list[tuple[float, int]]:
        """All samples, to 0.01 ms, and how often each came: they are too many to be listed one by one."""
        return sorted(Counter(round(sample, 2) for sample in self.samples).items())

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measures in a thread of its own."""
        stop = threading.Event()

        def sleep() -> None:
            while True:
                begin = time.perf_counter()
                time.sleep(0.001)
                self.samples.append((time.perf_counter() - begin - 0.001) * 1e3)
                if stop.is_set():
                    return

        thread = threading.Thread(target=sleep)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def percentile(samples: Sequence[float], fraction: float) -> float:
    """Nearest rank."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)] if ordered else math.nan
