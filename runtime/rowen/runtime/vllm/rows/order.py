"""In which order rows are taken: those that begin alike one after the other, so that a prefix is read once."""

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import Any, Protocol


class Request(Protocol):
    """What counts of a request of vLLM's."""

    request_id: str
    arrival_time: float
    block_hashes: Sequence[Hashable]
    lora_request: Any


_Place = tuple[float, int]
"""When a row came, and its number among those that came then."""


@dataclass(slots=True, eq=False)
class Row:
    """What is known of a row."""

    request: Request
    place: _Place
    waits: bool = True
    passed: int = 0
    """How many rows began before it since it came or ran, though it was their elder."""
    tried_with: int = -1
    """With how many blocks it did not fit last since it came or ran; -1: it was not tried."""


@dataclass(slots=True, eq=False)
class _Group:
    """Rows that begin alike, the oldest first: one at least, but for the time in which it is made."""

    name: Hashable
    adapter: int | None
    rows: list[Row] = field(default_factory=list)

    @property
    def place(self) -> _Place:
        return self.rows[0].place


class Rows:
    """The engine's rows that have not ended: they wait, or they run.

    A group of rows that begin alike has the place of its oldest, whether that waits or runs: once it has ended, of its
    next. So nobody waits for ever while a group goes on. What is done with one row takes no longer for others, but for
    what it takes to move the end of a list.
    """

    def __init__(self) -> None:
        self.waiting = 0
        """How many wait."""
        self._count = 0
        self._rows: dict[str, tuple[Row, _Group]] = {}
        self._groups: dict[Hashable, _Group] = {}
        self._lines: dict[int | None, list[_Group]] = {}
        """By adapter: rows of one must not keep those of another waiting."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, request: Request) -> bool:
        return request.request_id in self._rows

    def wait(self, request: Request) -> None:
        """It waits from here on, as a new one or again."""
        if request not in self:
            self._add(request)
        row, _ = self._rows[request.request_id]
        self.waiting += not row.waits
        row.waits = True

    def run(self, request: Request) -> None:
        """It waits no more. Nothing happens where it was none."""
        row, _ = self._rows.get(request.request_id, (None, None))
        if row is not None:
            self.waiting -= row.waits
            row.waits, row.passed, row.tried_with = False, 0, -1

    def end(self, request: Request) -> None:
        """It is none any more. Nothing happens where it was none."""
        row, group = self._rows.pop(request.request_id, (None, None))
        if row is None or group is None:
            return
        self.waiting -= row.waits
        self._leave_line(group)
        del group.rows[bisect_left(group.rows, row.place, key=_place)]
        if group.rows:
            self._stand_in_line(group)
        else:
            del self._groups[group.name]

    def row(self, request: Request) -> Row:
        """What is known of one that has not ended. Raises `KeyError`."""
        return self._rows[request.request_id][0]

    def adapters(self) -> list[int | None]:
        """Those of rows that wait; first that of the row whose turn is first."""
        first = {adapter: next(_waiting(line), None) for adapter, line in self._lines.items()}
        found = [(one[0], adapter) for adapter, one in first.items() if one is not None]
        return [adapter for _, adapter in sorted(found, key=lambda each: each[0])]

    def in_order(self, adapters: Collection[int | None] | None = None) -> Iterator[Request]:
        """Those that wait, as they are taken; with `adapters`, those of these. Meanwhile none may come or go."""
        lines = [_waiting(line) for adapter, line in self._lines.items() if adapters is None or adapter in adapters]
        # Groups have different places.
        rows = lines[0] if len(lines) == 1 else merge(*lines, key=lambda each: each[0])
        return (request for _, request in rows)

    def _add(self, request: Request) -> None:
        self._count += 1
        row = Row(request, (request.arrival_time, self._count), waits=False)
        # The hash of the first block is that of all tokens in it; a prompt that is shorter has none.
        name = next(iter(request.block_hashes), request.request_id)
        group = self._groups.get(name)
        if group is None:
            adapter = request.lora_request.lora_int_id if request.lora_request else None
            group = self._groups[name] = _Group(name, adapter)
        else:
            self._leave_line(group)
        insort(group.rows, row, key=_place)
        self._stand_in_line(group)
        self._rows[request.request_id] = row, group

    def _stand_in_line(self, group: _Group) -> None:
        insort(self._lines.setdefault(group.adapter, []), group, key=_place)

    def _leave_line(self, group: _Group) -> None:
        line = self._lines[group.adapter]
        del line[bisect_left(line, group.place, key=_place)]
        if not line:
            del self._lines[group.adapter]


def _place(one: Row | _Group) -> _Place:
    return one.place


def _waiting(line: list[_Group]) -> Iterator[tuple[_Place, Request]]:
    """Rows that wait, with the places of their groups."""
    for group in line:
        place = group.place
        for row in group.rows:
            if row.waits:
                yield place, row.request
