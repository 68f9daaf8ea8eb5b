"""A process's folders go with it, and not with a child of it."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, sys
from rowen.runtime.storage.scratch import scratch_folder
folder = scratch_folder()
if os.fork() == 0:
    sys.exit(0)
os.wait()
print(folder, folder.is_dir())
"""


def test_a_folder_goes_with_the_process_that_made_it() -> None:
    folder, stayed = subprocess.check_output([sys.executable, "-c", SCRIPT], text=True).split()
    assert stayed == "True"
    assert not Path(folder).exists()
