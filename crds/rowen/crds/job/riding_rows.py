"""Whether the rows of a batch can ride in the engine that serves its model, as requests of that engine."""

from collections.abc import Iterator, Sequence

from rowen.crds.job.batch_inference import BatchInference

_INDIFFERENT = (
    "--max-num-seqs", "--max-num-batched-tokens", "--block-size", "--enable-prefix-caching",
    "--no-enable-prefix-caching", "--enable-chunked-prefill", "--enforce-eager", "--kv-cache-memory-bytes",
    "--gpu-memory-utilization", "--disable-log-stats", "--enable-log-requests", "--no-enable-log-requests",
    "--max-log-len", "--uvicorn-log-level", "--disable-uvicorn-access-log",
)  # fmt: skip
"""Arguments that say how fast rows are answered, and not how."""
_SERVING = (
    "--max-model-len", "--served-model-name", "--host", "--allowed-origins", "--allowed-methods", "--allowed-headers",
    "--allow-credentials", "--enable-lora", "--lora-modules", "--max-loras", "--max-lora-rank", "--max-cpu-loras",
)  # fmt: skip
"""Arguments of an engine beside which rows are answered as without. A row that is too long is seen when it comes."""
_CLOSED = (
    "--api-key", "--root-path", "--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--ssl-cert-reqs", "--uds",
    "--middleware", "--max-num-queued-reqs", "--max-num-queued-tokens",
)  # fmt: skip
"""Arguments of an engine that does not take each request, or takes fewer of the service's where rows wait."""


def rows_obstacle(batch: BatchInference, engine_args: Sequence[str]) -> str | None:
    """Why they cannot, for people, with the argument that stands in the way; None: nothing in the specs does.

    What an argument does to answers is not known of most, so both have to have it.
    `engine_args` are those of the service. A row that turns out to need more than the engine has, as a longer sequence,
    its worker refuses then.
    """
    if batch.adapter is not None:
        return "adapter: the engine serves the model alone"
    wanted, served = dict(parsed_args(batch.args)), dict(parsed_args(engine_args))
    closed = next((name for name in served if _is_closed(name)), None)
    if closed is not None:
        return f"the engine's {closed}"
    for name, values in wanted.items():
        if name not in _INDIFFERENT and served.get(name) != values:
            return f"args: {name}, which the engine has {'otherwise' if name in served else 'not'}"
    for name in served:
        if name not in wanted and name not in (*_INDIFFERENT, *_SERVING):
            return f"the engine's {name}, which the job has not"
    return None


def _is_closed(name: str) -> bool:
    """Whether vLLM may take the name for one of `_CLOSED`: a beginning is enough for it."""
    return any(argument.startswith(name) for argument in _CLOSED)


def parsed_args(args: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Arguments with their values: from `--a=b`, `--a b` and `--a`; with `-` for `_` in the name, as vLLM has it."""
    name, values = "", list[str]()
    for arg in args:
        if not arg.startswith("-"):
            values.append(arg)
            continue
        if name:
            yield name, tuple(values)
        name, equals, value = arg.partition("=")
        name, values = name.replace("_", "-"), [value] if equals else []
    if name:
        yield name, tuple(values)
