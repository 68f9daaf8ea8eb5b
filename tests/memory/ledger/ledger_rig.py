"""A ledger's file with both of its sides in the test's own process, and a plain choice to compare with."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from choice.chooser import Chooser, ledger_file

from rowen.node_agent.devices.library import agent_library
from rowen.runtime.memory.ledger import NativeLedger

Owners = Mapping[int, tuple[int, Collection[int]]]
"""Owner → tokens, handles. Numbered in this order, as a ledger that hears of them in this order does."""


@dataclass(frozen=True)
class Rig:
    descriptor: int
    ledger: NativeLedger
    chooser: Chooser

    def tell(self, owners: Owners) -> None:
        self.ledger.charge({owner: tokens for owner, (tokens, _) in owners.items()})
        for owner, (_, handles) in owners.items():
            self.ledger.add(owner, handles)


@contextmanager
def ledger_rig(capacity: int, owners: int = 64) -> Iterator[Rig]:
    with ledger_file(capacity, owners) as descriptor:
        chooser = Chooser(descriptor, capacity, owners)
        yield Rig(descriptor, NativeLedger(agent_library(), descriptor), chooser)
        chooser.close()


def by_handle(owners: Owners) -> defaultdict[int, set[int]]:
    """The owners that lose something with each handle."""
    found = defaultdict[int, set[int]](set)
    for owner, (tokens, handles) in owners.items():
        for handle in handles if tokens else ():
            found[handle].add(owner)
    return found


def owners_of(owners: Owners, handles: Iterable[int]) -> set[int]:
    """Owners that lose something with these handles."""
    found = by_handle(owners)
    return {owner for handle in handles for owner in found[handle]}


def loss(owners: Owners, handles: Iterable[int]) -> int:
    """Tokens of the owners that have something in these handles."""
    return sum(owners[owner][0] for owner in owners_of(owners, handles))


def algorithm_1(
    owners: Owners, eligible: Iterable[int], wanted: int, unknown: Collection[int] = ()
) -> tuple[list[int], set[int]]:
    """Handle by handle the one with the least marginal token cost: the handles, and the owners that they affect."""
    found = by_handle(owners)
    chosen: list[int] = []
    affected: set[int] = set()
    rest = list(dict.fromkeys(eligible))
    while rest and len(chosen) < wanted:
        costs = [(handle in unknown, sum(owners[owner][0] for owner in found[handle] - affected)) for handle in rest]
        best = rest.pop(costs.index(min(costs)))
        chosen.append(best)
        affected |= found[best]
    return chosen, affected


def reference(owners: Owners, eligible: Iterable[int], wanted: int, unknown: Collection[int] = ()) -> list[int]:
    """Algorithm 1, and then each owner spared, the dearest first, without whose handles there are still enough."""
    found = by_handle(owners)
    listed = list(dict.fromkeys(eligible))
    chosen, affected = algorithm_1(owners, listed, wanted, unknown)
    free = [handle for handle in listed if found[handle] <= affected and (handle in chosen or handle not in unknown)]
    for owner in sorted(affected, key=lambda owner: (owners[owner][0], owner), reverse=True):
        rest = [handle for handle in free if owner not in found[handle]]
        if len(rest) >= len(chosen):
            free = rest
    return free[: len(chosen)]
