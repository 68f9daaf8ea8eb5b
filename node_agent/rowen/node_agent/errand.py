"""Something that may never come back: it is done in a thread of its own."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def errand(work: Callable[[], T]) -> Future[T]:
    """Begins it. Neither the program's end nor anything else waits for the thread; the future cannot be cancelled."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result = work()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="rowen-errand", daemon=True).start()
    return future
