"""`RowenScheduler`: vLLM's scheduler that tells the device when the engine has work (`--scheduler-cls`).

Written against vLLM 0.32.0, whose scheduler interface is not public: test again on every bump.
"""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rowen.runtime.native import Online, online
from rowen.runtime.vllm.elastic.scheduler import ElasticScheduler
from rowen.runtime.vllm.engine_work import EngineWork

if TYPE_CHECKING:
    from vllm.v1.core.sched.interface import PauseState
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.engine import EngineCoreOutputs
    from vllm.v1.outputs import ModelRunnerOutput
    from vllm.v1.request import Request, RequestStatus


SHORTAGE_WAIT_SECONDS = 0.005
"""Memory that offline work has comes back within a millisecond or two; a preempted request is computed again."""


class RowenScheduler(ElasticScheduler):
    """Raises the device's activity while the engine has work, and reports the engine's steps."""

    shortage_wait_seconds: ClassVar[float] = SHORTAGE_WAIT_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        device: Online | None = online()
        self._work = EngineWork(device)
        if device is not None:
            device.pin()

    @override
    def add_request(self, request: "Request") -> None:
        self._work.raise_busy()
        try:
            super().add_request(request)
        finally:
            self._work.settle(self.has_unfinished_requests())

    @override
    def finish_requests(
        self, request_ids: "str | Iterable[str] | None", finished_status: "RequestStatus"
    ) -> "list[Request]":
        finished = super().finish_requests(request_ids, finished_status)
        self._work.settle(self.has_unfinished_requests())
        return finished

    @override
    def set_pause_state(self, pause_state: "PauseState") -> None:
        super().set_pause_state(pause_state)
        self._work.settle(self.has_unfinished_requests())

    @override
    def schedule(self, throttle_prefills: bool = False) -> "SchedulerOutput":
        begin_ns = time.monotonic_ns()
        output = super().schedule(throttle_prefills)
        if output.total_num_scheduled_tokens > 0:
            self._work.begin(id(output), begin_ns)
        return output

    @override
    def update_from_output(
        self, scheduler_output: "SchedulerOutput", model_runner_output: "ModelRunnerOutput"
    ) -> "dict[int, EngineCoreOutputs]":
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        self._work.end(id(scheduler_output), time.monotonic_ns())
        self._work.settle(self.has_unfinished_requests())
        return outputs
