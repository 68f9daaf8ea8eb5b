"""When the interpreter may look for garbage."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Keeps all garbage until the end: a search for it among all that is known takes longer than a decision.

    So what a pass leaves is still young when it ends, and goes with the next short search.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
