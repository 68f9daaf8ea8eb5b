"""Arguments of vLLM that Rowen decides, as patterns that refuse them. vLLM takes `_` for `-`, `--a=b` and `--a.b=c`."""

import re
from collections.abc import Sequence

ELASTIC_ARGS = (
    # What a memoryLimit decides.
    "--kv-cache-memory-bytes", "--num-gpu-blocks-override",
    # What Rowen's own parts are needed for.
    "--worker-cls", "--scheduler-cls", "--distributed-executor-backend",
    # What does not go with memory that goes away (`rowen.runtime.vllm.elastic.worker.refuse`).
    "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--decode-context-parallel-size",
    "--kv-transfer-config", "--speculative-config", "--watermark",
)  # fmt: skip
"""Those that an engine with a `memoryLimit` cannot have."""
_SHORT_ELASTIC_ARGS = ("-tp", "-pp", "-dp", "-dcp", "-sc")

BATCH_ARGS = (
    *ELASTIC_ARGS,
    # What the job's own fields say.
    "--model", "--revision", "--served-model-name", "--enable-lora", "--lora-modules", "--max-loras", "--max-lora-rank",
    # A batch has no port, and its process is the only one that serves.
    "--host", "--port", "--uds", "--api-key", "--api-server-count", "--headless", "--grpc", "--config", "--middleware",
)  # fmt: skip
"""Those that a batch job decides, with and without a `memoryLimit`."""
_SHORT_BATCH_ARGS = (*_SHORT_ELASTIC_ARGS, "-asc")

CO_SERVE_ARGS = (
    # What Rowen decides, or its own parts are needed for.
    "--model", "--revision", "--port", "--uds", "--config", "--worker-cls", "--scheduler-cls",
    "--distributed-executor-backend",
    # A model that is not whole in one process, or not as its files have it.
    "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--decode-context-parallel-size",
    "--prefill-context-parallel-size", "--quantization", "--cpu-offload-gb",
    # What is not computed layer by layer, as jobs ride along.
    "--no-enforce-eager", "--compilation-config", "--optimization-level", "--speculative-config",
    "--kv-transfer-config", "--headless",
)  # fmt: skip
"""Those that an engine cannot have in which jobs ride."""
_SHORT_CO_SERVE_ARGS = (*_SHORT_ELASTIC_ARGS, "-pcp", "-q", "-cc", "-O[0-9]*")

_MESSAGE = "args must not name any of {} (or their short forms)"
ELASTIC_MESSAGE = f"{_MESSAGE.format(', '.join(ELASTIC_ARGS))} with a memoryLimit"
CO_SERVE_MESSAGE = f"engine.{_MESSAGE.format(', '.join(CO_SERVE_ARGS))} with harvest.mode CoServe"
BATCH_MESSAGE = f"{_MESSAGE.format(', '.join(BATCH_ARGS))}: the job decides them"


def _pattern(long: Sequence[str], short: Sequence[str]) -> str:
    names = "|".join(arg.removeprefix("--").replace("-", "[-_]") for arg in long)
    letters = "|".join(arg.removeprefix("-") for arg in short)
    return f"^(--({names})|-({letters}))([=.]|$)"


ELASTIC_PATTERN = _pattern(ELASTIC_ARGS, _SHORT_ELASTIC_ARGS)
"""Matches each argument that is one of `ELASTIC_ARGS`; in CEL's regular expressions and Python's."""
BATCH_PATTERN = _pattern(BATCH_ARGS, _SHORT_BATCH_ARGS)
"""As above, of `BATCH_ARGS`."""
CO_SERVE_PATTERN = _pattern(CO_SERVE_ARGS, _SHORT_CO_SERVE_ARGS)
"""As above, of `CO_SERVE_ARGS`."""


def decided_args(args: Sequence[str]) -> list[str]:
    """Those of a batch's arguments that the job decides."""
    return [arg for arg in args if re.match(BATCH_PATTERN, arg)]


_SPREADING = _pattern(
    ("--tensor-parallel-size", "--pipeline-parallel-size", "--prefill-context-parallel-size"), ("-tp", "-pp", "-pcp")
)


def spreading_args(args: Sequence[str]) -> list[str]:
    """Those that spread a model over processes."""
    return [arg for arg in args if re.match(_SPREADING, arg)]
