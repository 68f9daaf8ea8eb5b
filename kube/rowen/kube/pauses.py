"""How long to wait before a request that has failed is made again."""

import random

from rowen.kube.errors import RefusedError

_LONGEST_WISH_SECONDS = 20.0


def pause_seconds(
    error: BaseException, failures: int, *, first: float, most: float, most_wished: float = _LONGEST_WISH_SECONDS
) -> float:
    """Seconds to leave the API server alone after so many failures in a row, at least 1.

    `first`, doubling up to `most`; as long as the server asks for, up to `most_wished`; and never all clients at once:
    up to a quarter more.
    """
    grown = min(first * 2.0 ** min(failures - 1, 32), most)
    wish = error.retry_after_seconds if isinstance(error, RefusedError) else None
    return max(grown, min(wish or 0.0, most_wished)) * random.uniform(1.0, 1.25)  # noqa: S311
