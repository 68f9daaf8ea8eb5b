"""That vLLM does not take a model or its arguments."""

from collections.abc import Iterator
from contextlib import contextmanager

from rowen.runtime.failure import input_failure, is_passing


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Around what vLLM makes of the user's words. Raises `WorkerError` where it refuses them."""
    try:
        yield
    except _kinds() as error:
        raise input_failure("ModelUnsuitable", f"vLLM refuses {what}: {error}", error) from error


def is_refusal(error: BaseException) -> bool:
    """Whether the next attempt would meet it, too."""
    return isinstance(error, _kinds()) and not is_passing(error)


def _kinds() -> tuple[type[Exception], ...]:
    from vllm.exceptions import VLLMClientError

    # Neither a lack of memory nor a system that fails is any of these. An unknown parser is a LookupError.
    return (ImportError, LookupError, NotImplementedError, TypeError, ValueError, VLLMClientError)
