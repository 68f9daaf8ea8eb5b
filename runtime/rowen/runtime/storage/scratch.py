"""Local folders that a process works in."""

import atexit
import shutil
import tempfile
from pathlib import Path


def scratch_folder() -> Path:
    """A new folder on the pod's own disk; it goes when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="rowen-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
