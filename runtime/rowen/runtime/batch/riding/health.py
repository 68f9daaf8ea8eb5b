"""Whether the engine is there."""

import asyncio
import time

import httpx

from rowen.crds.job.worker import RIDE_BROKEN, RIDE_LOST, ExitCode
from rowen.runtime.failure import WorkerError

_PERIOD_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
LOST_SECONDS = 120.0
"""An engine that does not answer for so long is given up."""


class Health:
    """Asks the engine from time to time. A row that is long on its way says nothing of it."""

    def __init__(self, client: httpx.AsyncClient, lost_seconds: float = LOST_SECONDS) -> None:
        self._client = client
        self._lost_seconds = lost_seconds
        self.was_working = False
        """Whether the engine was lost while it worked on a row, and has not answered since."""

    async def watch(self) -> None:
        """Goes on until the engine is lost. Raises `WorkerError`."""
        while True:
            await self.come()
            await asyncio.sleep(_PERIOD_SECONDS)

    async def come(self) -> None:
        """Returns as soon as the engine answers. Raises `WorkerError` when it does not for too long."""
        end, pause = time.monotonic() + self._lost_seconds, 0.25
        while not await self.is_good():
            if time.monotonic() >= end:
                message = f"the engine does not answer for {self._lost_seconds:.0f} s"
                if self.was_working:
                    raise WorkerError(RIDE_BROKEN, f"lost over rows, {message}", ExitCode.RETRY)
                raise WorkerError(RIDE_LOST, message, ExitCode.RETRY)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PERIOD_SECONDS)
        self.was_working = False

    async def is_good(self) -> bool:
        """Whether the engine answers now that it is well."""
        try:
            return (await self._client.get("/health", timeout=_ANSWER_SECONDS)).is_success
        except httpx.TransportError:
            return False
