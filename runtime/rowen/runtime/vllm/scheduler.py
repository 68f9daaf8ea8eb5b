"""An engine's scheduler that tells the device when the engine has work.

vLLM's scheduler interface is not public: of it no more is used than six methods, whatever arguments they have, and what
their output says of the step where it is as known.
"""

import time
from collections.abc import Callable
from typing import Any

from rowen.runtime.log import get_logger
from rowen.runtime.native import Online, online
from rowen.runtime.vllm.engine_work import EngineWork
from rowen.runtime.vllm.made_of import made_of

log = get_logger()

_METHODS = (
    "add_request", "finish_requests", "has_unfinished_requests", "schedule", "set_pause_state", "update_from_output",
)  # fmt: skip


def reporting(scheduler: type, **attributes: object) -> type:
    """That class of schedulers, with `attributes` of its own; each tells this process's device what it does.

    Raises `TypeError` where it is not made as vLLM's are.
    """
    missing = [name for name in _METHODS if not callable(getattr(scheduler, name, None))]
    if missing:
        raise TypeError(f"{scheduler.__module__}.{scheduler.__qualname__} has no {', '.join(missing)}")
    return type(f"Reporting{scheduler.__name__}", (Reports, scheduler), attributes)


class Reports:
    """Raises the device's activity while the engine has work, and reports the engine's steps.

    Whatever goes wrong in that is the device's loss and not the engine's. Private names have two underscores: they must
    be none that a scheduler has.
    """

    rowen_work: Callable[[Online | None], EngineWork] = EngineWork
    """Makes what the device is told from."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        device = online()
        self.__work: EngineWork | None = type(self).rowen_work(device)
        if device is not None:
            device.pin()

    def add_request(self, *args: Any, **kwargs: Any) -> Any:
        """The engine has work from here on."""
        self.__tell(lambda work: work.raise_busy())
        try:
            return self.__own.add_request(*args, **kwargs)
        finally:
            self.__settle()

    def finish_requests(self, *args: Any, **kwargs: Any) -> Any:
        """It may have none after this."""
        finished = self.__own.finish_requests(*args, **kwargs)
        self.__settle()
        return finished

    def set_pause_state(self, *args: Any, **kwargs: Any) -> Any:
        """Nor after this."""
        result = self.__own.set_pause_state(*args, **kwargs)
        self.__settle()
        return result

    def has_unfinished_requests(self, *args: Any, **kwargs: Any) -> Any:
        """It may have none without anything done: what rides may have to stand still."""
        unfinished = self.__own.has_unfinished_requests(*args, **kwargs)
        if not unfinished:
            self.__tell(lambda work: work.settle(False))
        return unfinished

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """A step begins, where it computes anything."""
        begin_ns = time.monotonic_ns()
        output = self.__own.schedule(*args, **kwargs)
        self.__tell(lambda work: _begin(work, output, begin_ns))
        return output

    def update_from_output(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        """A step has ended."""
        outputs = self.__own.update_from_output(scheduler_output, *args, **kwargs)
        self.__tell(lambda work: work.end(id(scheduler_output), time.monotonic_ns()))
        self.__settle()
        return outputs

    @property
    def __own(self) -> Any:
        """The scheduler as it is without this class."""
        return super()

    def __settle(self) -> None:
        self.__tell(lambda work: work.settle(self.__own.has_unfinished_requests()))

    def __tell(self, what: Callable[[EngineWork], None]) -> None:
        """Until it fails once."""
        if self.__work is None:
            return
        try:
            what(self.__work)
        except Exception as error:
            self.__work = None
            give_up("the engine's work cannot be told", error)


def _begin(work: EngineWork, output: Any, begin_ns: int) -> None:
    if output.total_num_scheduled_tokens > 0:
        work.begin(id(output), begin_ns, *made_of(output))


def give_up(what: str, error: Exception) -> None:
    """Says, to the log and to the agent, that nothing is to be harvested beside this engine; it serves on."""
    log.error(f"{what}: the engine serves, and is not harvested", error=f"{type(error).__name__}: {error}")
    device = online()
    if device is not None:
        device.fail()
