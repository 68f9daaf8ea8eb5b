"""What an engine that cannot keep its cache in the pool says."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rowen.crds.names import TERMINATION_LOG
from rowen.runtime import last_words
from rowen.runtime.log import get_logger
from rowen.runtime.vllm.elastic.geometry import UnsuitableError

log = get_logger()


@contextmanager
def told(termination_log: Path = Path(TERMINATION_LOG)) -> Iterator[None]:
    """Says an error of the start in one line, in the log and to the kubelet: vLLM buries it in pages of calls.

    The last that vLLM itself says is that a process of it has failed.
    """
    try:
        yield
    except UnsuitableError as error:
        log.error("the engine cannot start", error=str(error))
        with suppress(OSError):
            last_words.leave(str(error), termination_log)
        raise
