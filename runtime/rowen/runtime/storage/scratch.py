"""Local folders that a process works in."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def scratch_folder(within: Path | None = None) -> Path:
    """A new folder, by default on the pod's own disk; it goes when this process ends, but for a kill."""
    folder, owner = Path(tempfile.mkdtemp(prefix="rowen-", dir=within)), os.getpid()

    def remove() -> None:
        # A forked child has the handler, too.
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
