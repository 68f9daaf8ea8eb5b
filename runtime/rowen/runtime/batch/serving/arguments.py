"""The arguments of vLLM's API server: what the job decides, and what its `args` add."""

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from typing_extensions import override
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.exceptions import VLLMClientError
from vllm.utils.argparse_utils import FlexibleArgumentParser

from rowen.crds.service.engine_args import BATCH_ARGS
from rowen.runtime.batch.serving.adapter import Adapter
from rowen.runtime.failure import WorkerError

FIXED = (
    "--enforce-eager",
    # As long as the model and the cache allow.
    "--max-model-len=auto",
    # The default executor spins on the device's core for a second after each message.
    "--distributed-executor-backend=vllm.v1.executor.uniproc_executor.UniProcExecutor",
    "--worker-cls=rowen.runtime.batch.serving.engine_core.BatchWorker",
    "--scheduler-cls=rowen.runtime.vllm.elastic.scheduler.ElasticScheduler",
)
"""The same for every job."""


class _Parser(FlexibleArgumentParser):  # type: ignore[misc]
    """vLLM's parser, of which a mistake ends the job and not the process."""

    @override
    def error(self, message: str) -> NoReturn:
        raise WorkerError("SpecInvalid", f"args: {message}")

    @override
    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise WorkerError("SpecInvalid", f"args: {message or 'an argument that starts no server'}")


def given_arguments(args: Sequence[str]) -> Namespace:
    """What the job's `args` say. Raises `WorkerError` that names the argument."""
    parser = make_arg_parser(_Parser())
    given: Namespace = parser.parse_args(list(args))
    # vLLM takes any beginning of a name for it, as no pattern sees.
    named = [arg for arg in BATCH_ARGS if _value(given, arg) != parser.get_default(_destination(arg))]
    if named:
        raise WorkerError("SpecInvalid", f"args: {', '.join(named)}: the job decides that")
    if given.model_tag is not None:
        raise WorkerError("SpecInvalid", f"args: {given.model_tag!r} belongs to no argument")
    try:
        validate_parsed_serve_args(given)
    except (TypeError, ValueError, VLLMClientError) as error:
        raise WorkerError("SpecInvalid", f"args: {error}") from error
    return given


def server_arguments(
    model: Path, name: str, adapter: Adapter | None, dtype: str, sequences: int, cache_bytes: int, args: Sequence[str]
) -> Namespace:
    """All arguments. What `args` say of the number of sequences, their length and the precision goes before."""
    decided = [f"--model={model}", f"--served-model-name={name}", *FIXED]
    decided += [f"--dtype={dtype}", f"--max-num-seqs={sequences}", f"--kv-cache-memory-bytes={cache_bytes}"]
    if adapter is not None:
        module = json.dumps({"name": adapter.name, "path": str(adapter.folder)})
        decided += ["--enable-lora", "--max-loras=1", f"--max-lora-rank={adapter.rank}", "--lora-modules", module]
    arguments: Namespace = make_arg_parser(_Parser()).parse_args([*decided, *args])
    return arguments


def _destination(arg: str) -> str:
    return arg.removeprefix("--").replace("-", "_")


def _value(given: Namespace, arg: str) -> Any:
    return getattr(given, _destination(arg))
