"""One demo at a time: a second one would delete the jobs of the first."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from rowen.demo.errors import DemoError


@contextlib.contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Holds the folder's lock. Raises `DemoError` while another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DemoError(f"another demo runs with {folder}", "Wait for it to end.") from error
        yield
