"""In which order rows are taken: those that begin alike one after the other, so that a prefix is read once."""

from collections.abc import Hashable, Sequence


def together(beginnings: Sequence[Hashable | None]) -> list[int]:
    """Positions of rows in the order in which they are taken.

    `beginnings`: what each begins with, in the order in which they came, those included that run; None: too short to
    share anything. A group has the place of its first: once that has ended, of its next. So nobody waits for ever while
    a group goes on.
    """
    first: dict[Hashable, int] = {}
    places = [
        position if name is None else first.setdefault(name, position) for position, name in enumerate(beginnings)
    ]
    return sorted(range(len(beginnings)), key=places.__getitem__)
