"""What the batch worker adds to the process in which vLLM computes."""

import os
from typing import TYPE_CHECKING, Any

from rowen.crds.names import POOL_BYTES_ENV
from rowen.runtime.batch.serving.confession import tell_failures
from rowen.runtime.device_memory import worker_part
from rowen.runtime.vllm.elastic.attachment import attach
from rowen.runtime.vllm.elastic.worker import ElasticWorker

if TYPE_CHECKING:
    from vllm.config import VllmConfig


class BatchWorker(ElasticWorker):
    """Keeps the cache in the job's part of the device's pool, where it has one."""

    def __init__(self, vllm_config: "VllmConfig", *args: Any, **kwargs: Any) -> None:
        tell_failures()
        part = worker_part()
        if part is not None:
            attach(part)
        else:
            # No pool: the cache is in the job's own memory, and no larger than that.
            os.environ.pop(POOL_BYTES_ENV, None)
        super().__init__(vllm_config, *args, **kwargs)
