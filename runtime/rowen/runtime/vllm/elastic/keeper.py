"""A thread that keeps the cache and its grant in balance."""

import os
import threading

from rowen.runtime.vllm.elastic.cache import ElasticCache

POLL_SECONDS = 0.05
"""How soon a change of the grant is seen while the engine is idle; a working engine says when there may be one."""
_NICENESS = 19


class Keeper:
    """Maps handles ahead of need and gives back what the grant does not allow any more."""

    def __init__(self, cache: ElasticCache) -> None:
        self._cache = cache
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="rowen-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, after the slab that it may be at."""
        self._stopped = True
        self._cache.unsettled.set()
        self._thread.join()

    def _run(self) -> None:
        # It runs on the engine's cpus: zeroing must not take a step's time, and what a step needs at once it maps.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._stopped:
            self._cache.unsettled.clear()
            if not self._cache.balance():
                self._cache.unsettled.wait(POLL_SECONDS)
