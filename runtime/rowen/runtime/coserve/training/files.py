"""The files that a model's weights are mapped from: as long as they are what they were, the mapping may be read."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

_LOOK_SECONDS = 1.0
"""Between two looks at them."""


class ModelFilesChanged(Exception):  # noqa: N818
    """To read the mapping now may end the process (SIGBUS), or gives other weights. The message names the file."""


class ModelFiles:
    """Holds them open: of a file that another one has replaced by rename, the mapping is as good as ever."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """To be made before they are mapped. Raises `OSError`."""
        with ExitStack() as opened:
            files = [(path, opened.enter_context(path.open("rb"))) for path in paths]
            self._files = [(path, file, _state(file)) for path, file in files]
            self._opened = opened.pop_all()
        self._next_look = 0.0

    def check(self, now: float) -> None:
        """Looks at them once a second (`now`: monotonic seconds). Raises `ModelFilesChanged`."""
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        for path, file, state in self._files:
            if _state(file) != state:
                raise ModelFilesChanged(f"the model's file {path.name} was changed while the engine was using it")

    def close(self) -> None:
        """They are not looked at any more."""
        self._opened.close()


def _state(file: IO[bytes]) -> tuple[int, int] | None:
    """Size and time of the last change; None: it is out of reach."""
    try:
        found = os.fstat(file.fileno())
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
