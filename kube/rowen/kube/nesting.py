"""How deeply nested JSON may be that a process reads."""

import sys

LEVELS = 25_000
"""The API server stores objects of up to 10,000 levels; Python gives up at 1,000 where it is not told otherwise."""


def allow() -> None:
    """For processes that read what users write: else one such object would keep them from reading any of its kind."""
    sys.setrecursionlimit(LEVELS)
