"""Whether a stored object is already as wanted, so that nothing has to be applied."""

from collections.abc import Mapping, Sequence
from typing import Any

from rowen.crds.base import stored_quantity


def covers(current: Any, wanted: Any) -> bool:
    """Whether `current` holds all of `wanted`.

    Mappings may hold more, since the API server adds defaults, and lack what is empty, since it does not keep that;
    sequences must match entry by entry, and quantities by what they mean.
    """
    if isinstance(wanted, Mapping):
        return isinstance(current, Mapping) and all(
            covers(current[name], value) if name in current else not value for name, value in wanted.items()
        )
    if isinstance(wanted, str) or (isinstance(current, str) and type(wanted) in (int, float)):
        return current == wanted or _same_quantity(current, str(wanted))
    if isinstance(wanted, Sequence):
        return (
            isinstance(current, Sequence)
            and len(current) == len(wanted)
            and all(covers(one, other) for one, other in zip(current, wanted, strict=True))
        )
    return bool(current == wanted)


def _same_quantity(current: Any, wanted: str) -> bool:
    try:
        return stored_quantity(str(current)) == stored_quantity(wanted)
    except ValueError:
        return False
