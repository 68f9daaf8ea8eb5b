"""Why vLLM did not start: told by its engine's process to the one that waits, to which vLLM says only that it failed.

What is told is the first error that vLLM logs there.
"""

import json
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from typing_extensions import override

from rowen.runtime.batch.memory import start_failure
from rowen.runtime.batch.serving.refusal import is_refusal

_FILE_ENV = "ROWEN_ENGINE_FAILURE"


@contextmanager
def told_failures(cache: str) -> Iterator[None]:
    """Around the start of an engine. `cache`: how large it is, in words. Raises `WorkerError` for what ended it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "failure.json"
        os.environ[_FILE_ENV] = str(path)
        try:
            yield
        except Exception as error:
            if not path.exists():
                raise
            told = json.loads(path.read_text())
            raise start_failure(told["type"], told["message"], cache, refused=told["refused"]) from error


def tell_failures() -> None:
    """From now on the engine's process tells."""
    logging.getLogger("vllm.v1.engine.core").addHandler(_Confession(Path(os.environ[_FILE_ENV])))


class _Confession(logging.Handler):
    def __init__(self, path: Path) -> None:
        super().__init__(logging.ERROR)
        self._path = path

    @override
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and self._path.parent.is_dir() and not self._path.exists():
            told = {"type": type(error).__name__, "message": str(error), "refused": is_refusal(error)}
            self._path.write_text(json.dumps(told))
