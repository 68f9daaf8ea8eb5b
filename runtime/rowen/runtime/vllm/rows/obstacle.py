"""Engines in which no rows ride."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler


def obstacle(scheduler: "Scheduler") -> str | None:
    """Why rows cannot ride in an engine with the settings of this scheduler of vLLM's."""
    kinds = {
        "prefills in one piece": not scheduler.scheduler_config.enable_chunked_prefill,
        "a KV connector": scheduler.connector is not None or scheduler.ec_connector is not None,
        "speculative decoding": scheduler.num_spec_tokens > 0,
        "pipeline parallelism": scheduler.use_pp,
        "another model runner": scheduler.use_v2_model_runner,
        "layers with a state": scheduler.has_mamba_layers,
        "inputs that are no text": scheduler.max_num_encoder_input_tokens > 0 or scheduler.is_encoder_decoder,
    }
    return next((kind for kind, there in kinds.items() if there), None)
