"""Rowen's scheduler of an engine that writes beside the device's page into another one whether it has requests."""

import os
from pathlib import Path

from colocation.flags import FLAGS_ENV, Flags
from typing_extensions import override
from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from rowen.runtime.native import Online
from rowen.runtime.vllm.engine_work import EngineWork
from rowen.runtime.vllm.scheduler import Reports


class _FlaggedWork(EngineWork):
    def __init__(self, device: Online | None, flags: Flags) -> None:
        super().__init__(device)
        self._flags = flags

    @override
    def raise_busy(self) -> None:
        super().raise_busy()
        self._flags.busy = True

    @override
    def settle(self, unfinished: bool) -> None:
        super().settle(unfinished)
        self._flags.busy = self._busy


def _flagged(device: Online | None) -> _FlaggedWork:
    return _FlaggedWork(device, Flags(Path(os.environ[FLAGS_ENV])))


class FlaggedScheduler(Reports, AsyncScheduler):  # type: ignore[misc]
    """For `--scheduler-cls`."""

    rowen_work = staticmethod(_flagged)
