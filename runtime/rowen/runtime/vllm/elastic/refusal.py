"""What an engine that cannot keep its cache in the pool says."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from rowen.runtime.vllm.elastic.geometry import UnsuitableError

log = structlog.get_logger()


@contextmanager
def told() -> Iterator[None]:
    """Says an error of the start in one line: vLLM buries it in pages of calls."""
    try:
        yield
    except UnsuitableError as error:
        log.error("the engine cannot start", error=str(error))
        raise
