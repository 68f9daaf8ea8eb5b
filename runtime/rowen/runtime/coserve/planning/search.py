"""The largest number of tokens that keeps a step below a bound."""

from bisect import bisect_left
from collections.abc import Callable

_SIZES = (0, 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)


def most_tokens(seconds: Callable[[int], float], bound: float, most: int) -> int:
    """`argmax {s <= most : seconds(s) <= bound}`; 0 where none is.

    `seconds` grows; it is asked at some sizes, and taken for a straight line between two of them: where that says too
    many, once more on the shorter line.
    """
    if most <= 0:
        return 0
    above = seconds(most)
    if above <= bound:
        return most
    low, high = 0, bisect_left(_SIZES, most)
    below, largest = bound, most
    while high - low > 1:
        middle = (low + high) // 2
        there = seconds(_SIZES[middle])
        if there <= bound:
            low, below = middle, there
        else:
            high, above, largest = middle, there, _SIZES[middle]
    if low == 0:
        return 0
    for _ in range(2):
        found = _SIZES[low] + int((largest - _SIZES[low]) * (bound - below) / (above - below))
        there = seconds(found)
        if there <= bound:
            return found
        largest, above = found, there
    return _SIZES[low]
