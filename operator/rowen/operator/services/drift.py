"""Whether a stored object is already as wanted, so that nothing has to be applied."""

from collections.abc import Mapping, Sequence
from typing import Any

from rowen.crds.base import quantity_bytes


def covers(current: Any, wanted: Any) -> bool:
    """Whether `current` holds all of `wanted`.

    Mappings may hold more, since the API server adds defaults; sequences must match entry by entry, and
    quantities by what they mean.
    """
    if isinstance(wanted, Mapping):
        return isinstance(current, Mapping) and all(
            name in current and covers(current[name], value) for name, value in wanted.items()
        )
    if isinstance(wanted, str):
        return current == wanted or _same_quantity(current, wanted)
    if isinstance(wanted, Sequence):
        return (
            isinstance(current, Sequence)
            and len(current) == len(wanted)
            and all(covers(one, other) for one, other in zip(current, wanted, strict=True))
        )
    return bool(current == wanted)


def _same_quantity(current: Any, wanted: str) -> bool:
    try:
        return quantity_bytes(str(current)) == quantity_bytes(wanted)
    except ValueError:
        return False
