"""Local folders that a process works in."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def scratch_folder() -> Path:
    """A new folder on the pod's own disk; it goes when this process ends."""
    folder, owner = Path(tempfile.mkdtemp(prefix="rowen-")), os.getpid()

    def remove() -> None:
        # A forked child has the handler, too.
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
