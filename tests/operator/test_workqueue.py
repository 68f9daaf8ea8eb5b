"""The queue: one worker per key, nothing lost, back-off on errors."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from rowen.kube.errors import RefusedError
from rowen.operator.workqueue import FIRST_RETRY_SECONDS, WorkQueue
from rowen.operator.world.store import Key

A, B = Key("OfflineJob", "n", "a"), Key("OfflineJob", "n", "b")


@contextlib.asynccontextmanager
async def running(handle: Callable[[Key], Awaitable[float | None]], workers: int = 2) -> AsyncIterator[WorkQueue]:
    queue = WorkQueue(handle)
    task = asyncio.create_task(queue.run(workers))
    try:
        yield queue
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_changes_during_handling_are_handled_once_more() -> None:
    seen: list[Key] = []
    entered, leave, twice = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(key: Key) -> None:
        seen.append(key)
        entered.set()
        if len(seen) == 2:
            twice.set()
        await leave.wait()

    async with running(handle) as queue:
        queue.add(A)
        await entered.wait()
        for _ in range(5):
            queue.add(A)
        await asyncio.sleep(0)
        assert seen == [A], "a key is never handled by two workers at once"
        leave.set()
        await twice.wait()
    assert seen == [A, A]


async def test_keys_do_not_wait_for_each_other() -> None:
    done = asyncio.Event()

    async def handle(key: Key) -> None:
        if key == A:
            await asyncio.Event().wait()
        done.set()

    async with running(handle) as queue:
        queue.add(A)
        queue.add(B)
        await done.wait()


async def test_a_failed_key_waits_for_its_backoff_even_under_events() -> None:
    calls: list[float] = []
    loop = asyncio.get_running_loop()
    entered, leave, retried = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(_: Key) -> None:
        calls.append(loop.time())
        if len(calls) == 1:
            entered.set()
            await leave.wait()
            raise RuntimeError("API server away")
        retried.set()

    async with running(handle) as queue:
        queue.add(A)
        await entered.wait()
        queue.add(A)
        failed = loop.time()
        leave.set()
        await retried.wait()
    assert len(calls) == 2
    assert calls[1] - failed >= FIRST_RETRY_SECONDS


async def test_a_key_waits_for_as_long_as_the_api_server_asks_and_no_other_key_does() -> None:
    loop, times = asyncio.get_running_loop(), dict[Key, list[float]]()
    retried = asyncio.Event()

    async def handle(key: Key) -> None:
        times.setdefault(key, []).append(loop.time())
        if key == A and len(times[A]) == 1:
            raise RefusedError(429, "TooManyRequests", "busy", 1.0)
        if len(times) == 2 and len(times[A]) == 2:
            retried.set()

    async with running(handle, workers=1) as queue:
        queue.add(A)
        queue.add(B)
        await retried.wait()
    assert times[A][1] - times[A][0] >= 1.0
    assert len(times[B]) == 1
    assert times[B][0] < times[A][1]


async def test_comes_back_when_asked() -> None:
    calls = 0
    again = asyncio.Event()

    async def handle(_: Key) -> float | None:
        nonlocal calls
        calls += 1
        if calls == 2:
            again.set()
        return 0.01 if calls == 1 else None

    async with running(handle) as queue:
        queue.add(A)
        await again.wait()


async def test_what_comes_within_a_time_is_handled_once() -> None:
    seen: list[Key] = []
    done = asyncio.Event()

    async def handle(key: Key) -> None:
        seen.append(key)
        done.set()

    async with running(handle) as queue:
        for _ in range(1000):
            queue.add_within(A, 0.05)
            await asyncio.sleep(0)
        await done.wait()
    assert len(seen) < 1000
    assert seen[0] == A


async def test_what_has_failed_is_not_handled_earlier_for_a_report() -> None:
    tries = 0
    failed, again = asyncio.Event(), asyncio.Event()

    async def handle(_: Key) -> None:
        nonlocal tries
        tries += 1
        (failed if tries == 1 else again).set()
        if tries == 1:
            raise RuntimeError

    async with running(handle) as queue:
        started = asyncio.get_running_loop().time()
        queue.add(A)
        await failed.wait()
        await asyncio.sleep(0)
        queue.add_within(A, 0.0)
        await again.wait()
        assert asyncio.get_running_loop().time() - started >= FIRST_RETRY_SECONDS * 0.4
