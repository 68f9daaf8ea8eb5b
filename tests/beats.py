"""Something that is done all the time while a test looks at something else, such as a node's heartbeat."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def beating(beat: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Does it twice a second."""

    async def for_ever() -> None:
        while True:
            await beat()
            await asyncio.sleep(0.5)

    task = asyncio.create_task(for_ever())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
