"""Work in a child process that is killed at one of its calls of the S3 server, before it is made or after it is."""

import os
import signal
from collections.abc import Callable, Collection
from typing import Any, Literal

import s3fs

Moment = Literal["before", "after"]
WRITES = frozenset({"put_object", "delete_object"})
"""Between two of them a kill changes nothing at the server: one before each stands for all."""


def run_killed(work: Callable[[], object], calls: Collection[str], number: int, moment: Moment = "before") -> bool:
    """Runs the work in a child that is killed at that one of its calls of these names. Whether it has come to it.

    Raises `AssertionError` when the work fails.
    """
    child = os.fork()
    if child == 0:
        _kill_at(calls, number, moment)
        try:
            work()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def _kill_at(calls: Collection[str], number: int, moment: Moment) -> None:
    original = s3fs.S3FileSystem._call_s3
    made = 0

    async def counted(files: Any, name: str, *args: Any, **named: Any) -> Any:
        nonlocal made
        made += name in calls
        dies = name in calls and made == number
        if dies and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return await original(files, name, *args, **named)
        finally:
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)

    s3fs.S3FileSystem._call_s3 = counted
