"""Whether anything can ride in an engine, by its configuration."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.config import VllmConfig

_FORMATS = ("auto", "hf", "safetensors")


def obstacle(config: "VllmConfig") -> str | None:
    """Why nothing can, for people; None: nothing is in the way."""
    from vllm.config import CompilationMode, CUDAGraphMode
    from vllm.platforms import current_platform
    from vllm.v1.executor import Executor, UniProcExecutor

    parallel, compilation = config.parallel_config, config.compilation_config
    eager = compilation.mode == CompilationMode.NONE and compilation.cudagraph_mode in (None, CUDAGraphMode.NONE)
    wrong = {
        "it does not run on a CPU": not current_platform.is_cpu(),
        "it compiles its model: it takes --enforce-eager": not eager,
        "it spreads its model or its requests over several processes": parallel.world_size_across_dp > 1,
        "its worker is another process: it takes --distributed-executor-backend "
        "vllm.v1.executor.uniproc_executor.UniProcExecutor": not issubclass(
            Executor.get_class(config), UniProcExecutor
        ),
        "its weights are quantised": config.quant_config is not None,
        "its weights do not come from safetensors files": config.load_config.load_format not in _FORMATS,
        "its model's configuration is overridden": bool(config.model_config.hf_overrides),
        "it has a speculative configuration": config.speculative_config is not None,
        "it generates no text": config.model_config.runner_type != "generate",
        # Parts would run before the tokens of the step before are on their way.
        "it schedules asynchronously": bool(config.scheduler_config.async_scheduling),
        "it has a second model runner": bool(config.use_v2_model_runner),
    }
    return next((reason for reason, applies in wrong.items() if applies), None)
