"""How fast rows are sent to an engine. Times are those of a clock that only waiting moves."""

import asyncio
from collections.abc import Iterator

import pytest

from rowen.runtime.batch.riding import intake as intakes
from rowen.runtime.batch.riding.intake import Intake


class Loop(asyncio.SelectorEventLoop):
    """Its time stands still but for what is slept."""

    now = 0.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    loop = Loop()
    really = asyncio.sleep

    async def sleep(seconds: float) -> None:
        loop.now += max(0.0, seconds)
        await really(0)

    monkeypatch.setattr(intakes.asyncio, "sleep", sleep)
    yield loop
    loop.close()


def sent(loop: Loop, *sizes: int) -> list[float]:
    """When each of these rows is, which all come at once."""
    intake, found = Intake(), []

    async def send(size: int) -> None:
        async with intake.turn(1, size):
            found.append(loop.now)

    async def send_all() -> None:
        await asyncio.gather(*map(send, sizes))

    loop.run_until_complete(send_all())
    return found


def test_rows_that_come_at_once_go_one_by_one(loop: Loop) -> None:
    assert sent(loop, 0, 0, 0) == pytest.approx([0.0, 0.004, 0.008])


def test_who_follows_a_long_row_waits_for_longer(loop: Loop) -> None:
    assert sent(loop, 100_000, 1000, 0) == pytest.approx([0.0, 0.404, 0.412])


def test_a_row_counts_for_all_requests_that_it_is(loop: Loop) -> None:
    intake, found = Intake(), []

    async def send_all() -> None:
        for requests in (64, 1):
            async with intake.turn(requests, 1000):
                found.append(loop.now)

    loop.run_until_complete(send_all())
    assert found == pytest.approx([0.0, 0.26])


def test_while_a_row_cannot_be_sent_the_next_ones_wait(loop: Loop) -> None:
    intake, found = Intake(), []
    back = asyncio.Event()

    async def first() -> None:
        async with intake.turn(1, 0):
            await back.wait()
            loop.now = 50.0
            found.append(("first", loop.now))

    async def second() -> None:
        async with intake.turn(1, 0):
            found.append(("second", loop.now))

    async def both() -> None:
        tasks = [asyncio.create_task(first()), asyncio.create_task(second())]
        for _ in range(10):
            await asyncio.sleep(0)
        assert found == []
        back.set()
        await asyncio.gather(*tasks)

    loop.run_until_complete(both())
    assert found == [("first", 50.0), ("second", pytest.approx(50.004))]


def test_a_row_that_is_given_up_lets_the_next_one_go(loop: Loop) -> None:
    intake, found = Intake(), []

    async def fails() -> None:
        async with intake.turn(1, 0):
            raise ValueError

    async def both() -> None:
        with pytest.raises(ValueError):
            await fails()
        async with intake.turn(1, 0):
            found.append(loop.now)

    loop.run_until_complete(both())
    assert found == [0.0]
