"""An engine that never has a request of its own: its gate stays open, is held, or follows another engine's requests.

python -m colocation.gap_engine [FLAGS]

Without FLAGS it is busy from a line `busy` on its standard input to the next other one. In `Mode.EVERY_GAP` it is busy
whenever the flags say so. It reports no steps, so the device knows of no decode gap and opens after its floor of 2 ms.
It looks every 0.2 ms, on another core.
"""

import ctypes
import os
import sys
import time
from pathlib import Path

from colocation.flags import Flags, Mode
from rig.attaching import attach

_LOOK_SECONDS = 0.0002
_REST_SECONDS = 0.02


def main() -> None:
    """Until it is killed."""
    library = ctypes.CDLL(os.environ["ROWEN_LIBRARY"])
    print(attach(library, os.environ["ROWEN_ENGINE_SOCKET"]), flush=True)
    if len(sys.argv) < 2:
        for line in sys.stdin:
            (library.rowen_online_busy if line == "busy\n" else library.rowen_online_idle)()
        return
    flags, told = Flags(Path(sys.argv[1])), False
    while True:
        follows = flags.mode is Mode.EVERY_GAP
        busy = follows and flags.busy
        if busy != told:
            (library.rowen_online_busy if busy else library.rowen_online_idle)()
            told = busy
        time.sleep(_LOOK_SECONDS if follows else _REST_SECONDS)


if __name__ == "__main__":
    main()
