"""That vLLM does not take a model or its arguments."""

from collections.abc import Iterator
from contextlib import contextmanager

from rowen.runtime.failure import WorkerError, is_passing


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Around what vLLM makes of the user's words. Raises `WorkerError` where it refuses them."""
    try:
        yield
    except Exception as error:
        if not is_refusal(error):
            raise
        raise WorkerError("ModelUnsuitable", f"vLLM refuses {what}: {error}") from error


def is_refusal(error: BaseException) -> bool:
    """Whether the next attempt would meet it, too: by its kind, or by that of what it was made of."""
    from vllm.exceptions import VLLMClientError

    # Neither a lack of memory nor a system that fails is any of these. An unknown parser is a LookupError.
    kinds = (ImportError, LookupError, NotImplementedError, TypeError, ValueError, VLLMClientError)
    link: BaseException | None = error
    while link is not None and not isinstance(link, kinds):
        link = link.__cause__
    return link is not None and not is_passing(error)
