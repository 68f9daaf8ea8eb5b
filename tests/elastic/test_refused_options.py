"""What the elastic worker refuses when it starts, the API server refuses before."""

import re
from types import SimpleNamespace

import pytest

from rowen.crds.service.online_service import Engine
from rowen.runtime.vllm.elastic.geometry import UnsuitableError
from rowen.runtime.vllm.elastic.worker import refuse


def test_every_option_that_the_worker_refuses_is_refused_in_an_engines_args() -> None:
    parallel = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size")
    config = SimpleNamespace(
        parallel_config=SimpleNamespace(**dict.fromkeys(parallel, 2), distributed_executor_backend="mp"),
        cache_config=SimpleNamespace(num_gpu_blocks_override=0),
        scheduler_config=SimpleNamespace(watermark=0.01),
        kv_transfer_config=object(),
        speculative_config=object(),
    )
    with pytest.raises(UnsuitableError) as refused:
        refuse(config)  # type: ignore[arg-type]
    options = re.findall(r"--[a-z-]+", str(refused.value))
    assert len(options) >= len(parallel) + 5
    rules = Engine.model_json_schema()["x-kubernetes-validations"]
    message = next(rule["message"] for rule in rules if rule["message"].startswith("args must not name"))
    assert set(options) <= set(re.findall(r"--[a-z-]+", message))
