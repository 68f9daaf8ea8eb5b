"""The descriptors that are open in this process."""

import gc
from pathlib import Path


def open_descriptors() -> set[int]:
    """Without those that are only kept by what earlier tests have left for the garbage collector."""
    gc.collect()
    return {int(each.name) for each in Path("/proc/self/fd").iterdir()}
