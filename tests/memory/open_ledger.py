"""A ledger that can be read."""

from collections.abc import Hashable, Iterable, Mapping

from typing_extensions import override

from rowen.runtime.memory.ledger import Ledger


class OpenLedger(Ledger):
    """What its process has said, by owner."""

    def __init__(self) -> None:
        self.tokens: dict[Hashable, int] = {}
        self.handles: dict[Hashable, set[int]] = {}

    @override
    def charge(self, tokens: Mapping[Hashable, int]) -> None:
        self.tokens.update(tokens)

    @override
    def add(self, owner: Hashable, handles: Iterable[int]) -> None:
        self.handles.setdefault(owner, set()).update(handles)

    @override
    def remove(self, owner: Hashable, handles: Iterable[int]) -> None:
        self.handles[owner] -= set(handles)

    @override
    def drop(self, owner: Hashable) -> None:
        self.tokens.pop(owner, None)
        self.handles.pop(owner, None)
