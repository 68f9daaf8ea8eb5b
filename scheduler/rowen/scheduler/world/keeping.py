"""When what was learned is loaded and stored: what outlives a restart, when it has changed and not too often."""

import asyncio
import time

import structlog

from rowen.kube.errors import KubeError
from rowen.scheduler.history import History
from rowen.scheduler.world.store import Store, encode

_SAVE_SECONDS = 30.0
_LAST_SAVE_SECONDS = 5.0

log = structlog.get_logger()


class Keeping:
    """What is in the store, as far as this scheduler knows."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._saved, self._saved_at = "", float("-inf")
        self.loaded = False
        """Whether what was stored before is known, so that it can be replaced."""

    def forget(self) -> None:
        """Another scheduler may have stored something since."""
        self.loaded = False

    async def load(self, latest: float) -> History:
        """What was stored, as `Store.load`."""
        history = await self._store.load(latest)
        self._saved, self.loaded = encode(history), True
        return history

    def due(self, history: History) -> str:
        """What is to be stored now; empty where nothing is."""
        if time.monotonic() - self._saved_at < _SAVE_SECONDS:
            return ""
        text = encode(history)
        return "" if text == self._saved else text

    async def save(self, history: History, text: str) -> None:
        """Stores the history, of which `due` made the text. Raises `KubeError`."""
        # One that is refused is not tried again at once either.
        self._saved_at = time.monotonic()
        await self._store.save(history)
        self._saved = text

    async def save_at_end(self, history: History) -> None:
        """Stores what has changed, however little time has passed; a failure is said in the log."""
        text = encode(history) if self.loaded else self._saved
        if text == self._saved:
            return
        try:
            async with asyncio.timeout(_LAST_SAVE_SECONDS):
                await self.save(history, text)
        except (KubeError, TimeoutError) as error:
            log.warning("profiles not stored at the end", error=str(error) or type(error).__name__)
