"""An answer's memory, which a guest has."""

import time
from collections.abc import Callable

from rowen.runtime.coserve.task import Task
from rowen.runtime.coserve.wire.memory import take_back


class Loan:
    """Keeps the task that was answered: the learner counts the memory for as long as that lives."""

    def __init__(self, file: int, size_bytes: int, task: Task, returned: Callable[[], None]) -> None:
        """`returned` is called once the memory is free again, on the thread that has taken it back."""
        self.file = file
        self.size_bytes = size_bytes
        self.since = time.monotonic()
        """Seconds, monotonic."""
        self._task: Task | None = task
        self._returned = returned

    def take_back(self) -> None:
        """Frees the memory, which may take as long as a guest wishes. Raises `OSError`."""
        try:
            take_back(self.file)
        finally:
            self._task = None
            self._returned()
