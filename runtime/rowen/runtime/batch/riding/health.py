"""Whether the engine is there, and still the one that was named."""

import asyncio
import time

import httpx

from rowen.crds.job.worker import RIDE_BROKEN, RIDE_LOST, ExitCode
from rowen.crds.names import ENGINE_POD_HEADER
from rowen.runtime.failure import WorkerError

_PERIOD_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_REFUSED_SECONDS = 1.0
"""Between the two refused connections, at least, that are no accident."""
LOST_SECONDS = 120.0
"""An engine that does not answer for so long is given up."""


class Health:
    """Asks the engine from time to time. A row that is long on its way says nothing of it."""

    def __init__(self, client: httpx.AsyncClient, pod: str | None, lost_seconds: float = LOST_SECONDS) -> None:
        """`pod`: name of the engine's pod, where that is known."""
        self._client = client
        self._pod = pod
        self._lost_seconds = lost_seconds
        self._has_said_it = False
        self.is_lost = False
        """Whether the engine was lost and has not answered since: somebody else may have its address by now."""
        self.losses = 0
        """How often it was found to have gone away."""
        self.was_working = False
        """Whether it was lost while it worked on a row, likewise."""
        self.is_failing = False
        """Whether it has failed at a row and has answered none since."""
        self.closed = asyncio.Event()
        """Set while it takes no connections: one that ends waits for those that it has, and answers none of them."""
        self._refused_at: float | None = None
        """When it first did so, by the monotonic clock; None: it has answered since."""
        self._asking = asyncio.Lock()

    async def watch(self) -> None:
        """Goes on until the engine is lost. Raises `WorkerError`."""
        while True:
            await self.come()
            await asyncio.sleep(_PERIOD_SECONDS)

    async def come(self) -> None:
        """Returns as soon as the engine answers. Raises `WorkerError` when it does not for too long."""
        async with self._asking:
            await self._come()

    def be_lost(self, *, working: bool) -> None:
        """It has gone away; `working`: while it worked on a row. One that has failed at a row just before was, too."""
        self.losses += 1
        self.is_lost = True
        self.was_working |= working or self.is_failing

    async def come_back(self) -> None:
        """Likewise, for one that is lost; at once where it has answered since. Of many that wait one asks it."""
        if not self.is_lost:
            # Nor does it wait for who asks it meanwhile.
            return
        async with self._asking:
            if self.is_lost:
                await self._come()

    async def _come(self) -> None:
        end, pause = time.monotonic() + self._lost_seconds, 0.25
        while not await self._is_back():
            self.is_lost = True
            if time.monotonic() >= end:
                message = f"the engine does not answer for {self._lost_seconds:.0f} s"
                if self.was_working or self.is_failing:
                    raise WorkerError(RIDE_BROKEN, f"lost over rows, {message}", ExitCode.RETRY)
                raise WorkerError(RIDE_LOST, message, ExitCode.RETRY)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PERIOD_SECONDS)
        if self.is_lost:
            # It is another one, or well again.
            self.is_failing = False
        self.is_lost = self.was_working = False

    async def _is_back(self) -> bool:
        """An answer on its way while the engine was lost is none of the engine since."""
        losses = self.losses
        return await self.is_good() and self.losses == losses

    async def is_good(self) -> bool:
        """Whether the engine answers now that it is well."""
        try:
            response = await self._client.get("/health", timeout=_ANSWER_SECONDS)
        except httpx.TransportError as error:
            # That it takes its time says nothing: it may be busy.
            if isinstance(error, httpx.ConnectError):
                self._be_refused()
            return False
        self._refused_at = None
        self.closed.clear()
        return response.is_success and self._is_engine(response.headers.get(ENGINE_POD_HEADER))

    def _be_refused(self) -> None:
        now = time.monotonic()
        if self._refused_at is None:
            self._refused_at = now
        elif now - self._refused_at >= _REFUSED_SECONDS:
            self.be_lost(working=False)
            self.closed.set()

    def _is_engine(self, said: str | None) -> bool:
        """An engine with a plugin of before says no name. One that has said its name goes on doing so."""
        if self._pod is None:
            return True
        self._has_said_it |= said == self._pod
        return said == self._pod or (said is None and not self._has_said_it)
