"""What a process notes in its ledger, as the agent's choice sees it."""

import os
import random
from collections.abc import Hashable

import pytest
from choice.chooser import Chooser, ledger_file
from hypothesis import given, settings
from hypothesis import strategies as st
from memory.ledger.ledger_rig import Rig, ledger_rig, loss, reference

from rowen.node_agent.devices.library import agent_library
from rowen.runtime.memory.ledger import NativeLedger

CAPACITY = 40
HANDLES_PER_CHUNK = 15


def costs(rig: Rig, capacity: int = CAPACITY) -> list[tuple[int, int, int]]:
    """Of each handle alone: the tokens that it costs, the owners that it affects, whether it has unknown ones."""
    found = [rig.chooser.choose([handle], 1) for handle in range(capacity)]
    return [(choice.tokens, choice.owners, choice.unknown) for choice in found]


handles = st.lists(st.integers(0, CAPACITY - 1), max_size=30)
owner = st.integers(0, 9).map(str)
calls = st.lists(
    st.one_of(
        st.tuples(st.just("charge"), st.dictionaries(owner, st.integers(0, 1000))),
        st.tuples(st.sampled_from(["add", "remove"]), owner, handles),
        st.tuples(st.just("drop"), owner),
    ),
    max_size=40,
)


class Plain:
    """What the ledger should know."""

    def __init__(self) -> None:
        self.tokens: dict[Hashable, int] = {}
        self.handles: dict[Hashable, set[int]] = {}

    def call(self, name: str, *arguments: object) -> None:
        match (name, *arguments):
            case ("charge", dict(tokens)):
                self.tokens |= tokens
            case ("add", owner, list(handles)):
                self.handles.setdefault(owner, set()).update(handles)
            case ("remove", owner, list(handles)):
                self.handles.get(owner, set()).difference_update(handles)
            case ("drop", owner):
                self.tokens.pop(owner, None)
                self.handles.pop(owner, None)

    def costs(self) -> list[tuple[int, int, int]]:
        found = []
        for handle in range(CAPACITY):
            paid = [tokens for owner, tokens in self.tokens.items() if tokens and handle in self.handles.get(owner, ())]
            found.append((sum(paid), len(paid), 0))
        return found


@settings(max_examples=150)
@given(calls)
def test_after_any_calls_it_knows_what_one_built_anew_knows(made: list[tuple[str, ...]]) -> None:
    plain = Plain()
    with ledger_rig(CAPACITY) as rig:
        for name, *arguments in made:
            getattr(rig.ledger, name)(*arguments)
            plain.call(name, *arguments)
        assert costs(rig) == plain.costs()


@settings(max_examples=150)
@given(calls, st.integers(1, 4))
def test_with_too_few_places_what_is_known_is_right_and_the_rest_is_unknown(
    made: list[tuple[str, ...]], places: int
) -> None:
    plain = Plain()
    with ledger_rig(CAPACITY, owners=places) as rig:
        for name, *arguments in made:
            getattr(rig.ledger, name)(*arguments)
            plain.call(name, *arguments)
        for (tokens, owners, unknown), (all_tokens, all_owners, _) in zip(costs(rig), plain.costs(), strict=True):
            assert unknown or (tokens, owners) == (all_tokens, all_owners)
            assert tokens <= all_tokens
            assert owners <= min(all_owners, places)
        for owner in map(str, range(10)):
            rig.ledger.drop(owner)
        assert costs(rig) == [(0, 0, 0)] * CAPACITY


@pytest.mark.parametrize("count", [HANDLES_PER_CHUNK - 1, HANDLES_PER_CHUNK, HANDLES_PER_CHUNK + 1, CAPACITY])
def test_every_number_of_handles_comes_and_goes(count: int) -> None:
    with ledger_rig(CAPACITY) as rig:
        for _ in range(3):
            rig.tell({"a": (3, range(count)), "b": (4, [CAPACITY - 1])})
            assert [tokens & 3 for tokens, _, _ in costs(rig)] == [3] * count + [0] * (CAPACITY - count)
            rig.ledger.remove("a", range(1, count))
            assert [tokens for tokens, _, _ in costs(rig)] == [3] + [0] * (CAPACITY - 2) + [4]
            rig.ledger.drop("a")
            assert [tokens for tokens, _, _ in costs(rig)] == [0] * (CAPACITY - 1) + [4]


def test_owners_without_a_place_are_the_dearest_until_they_are_gone() -> None:
    with ledger_rig(4, owners=2) as rig:
        rig.tell({0: (1000, [0]), 1: (900, [1]), 2: (1, [2]), 3: (1, [2])})
        assert rig.chooser.choose([2, 0, 1], 2).handles == [0, 1]
        assert rig.chooser.choose([2, 0, 1], 3).unknown == 1
        rig.ledger.drop(2)
        assert rig.chooser.choose([2, 3], 2).unknown == 1
        rig.ledger.drop(3)
        assert rig.chooser.choose([2, 0, 1], 1).handles == [2]


def test_the_next_owner_gets_the_place_of_one_that_is_gone() -> None:
    with ledger_rig(4, owners=2) as rig:
        rig.tell({0: (5, [0]), 1: (6, [1])})
        rig.ledger.drop(0)
        rig.tell({2: (7, [2])})
        assert costs(rig, 4) == [(0, 0, 0), (6, 1, 0), (7, 1, 0), (0, 0, 0)]


def test_more_handles_than_the_table_has_room_for_are_unknown_and_come_back() -> None:
    capacity, owners = 60, 64
    # Room for 16 owners per handle; here each handle has 64.
    with ledger_rig(capacity, owners) as rig:
        rig.tell({owner: (1, range(capacity)) for owner in range(owners)})
        full = costs(rig, capacity)
        assert all(unknown == 1 for _, _, unknown in full)
        assert sum(found for _, found, _ in full) >= 16 * capacity
        for owner in range(owners):
            rig.ledger.remove(owner, range(1, capacity))
        assert [unknown for _, _, unknown in costs(rig, capacity)[1:]] == [0] * (capacity - 1)
        for owner in range(owners):
            rig.ledger.drop(owner)
        assert costs(rig, capacity) == [(0, 0, 0)] * capacity
        rig.tell({"new": (2, range(capacity))})
        assert costs(rig, capacity) == [(2, 1, 0)] * capacity


def test_a_new_process_finds_it_empty() -> None:
    with ledger_rig(8) as rig:
        rig.tell({owner: (5, [owner % 8]) for owner in range(70)})
        second = NativeLedger(agent_library(), rig.descriptor)
        assert costs(rig, 8) == [(0, 0, 0)] * 8
        second.charge({"x": 2})
        second.add("x", [3])
        assert costs(rig, 8)[3] == (2, 1, 0)


@pytest.mark.parametrize("wrong", [[8], [3, 8], [-1, 3], [2**32]])
def test_a_handle_out_of_range_is_refused_with_all_of_the_call(wrong: list[int]) -> None:
    with ledger_rig(8) as rig:
        rig.ledger.charge({"a": 4})
        rig.ledger.add("a", [2])
        for call in (rig.ledger.add, rig.ledger.remove):
            with pytest.raises(ValueError, match="handles go from 0 to 7"):
                call("a", [2, *wrong])
        assert [cost[0] for cost in costs(rig, 8)] == [0, 0, 4, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("tokens", [-1, 2**32])
def test_tokens_out_of_range_are_refused_with_all_of_the_call(tokens: int) -> None:
    with ledger_rig(8) as rig:
        rig.tell({"a": (4, [2])})
        with pytest.raises(ValueError, match=f"tokens must be from 0 to 4294967295.*'b': {tokens}"):
            rig.ledger.charge({"a": 5, "b": tokens})
        assert costs(rig, 8)[2] == (4, 1, 0)


def test_a_file_that_is_no_ledger_is_refused() -> None:
    descriptor = os.memfd_create("other", os.MFD_ALLOW_SEALING)
    try:
        for size in (0, 4096):
            os.ftruncate(descriptor, size)
            with pytest.raises(OSError, match="cannot use the ledger"):
                NativeLedger(agent_library(), descriptor)
            with pytest.raises(OSError, match="cannot choose by this ledger"):
                Chooser(descriptor, 8, 8)
    finally:
        os.close(descriptor)
    with pytest.raises(OSError, match="cannot use the ledger"):
        NativeLedger(agent_library(), -1)


def test_a_ledger_that_is_smaller_than_agreed_is_refused() -> None:
    with ledger_file(8, 8) as descriptor:
        Chooser(descriptor, 8, 8).close()
        for capacity, owners in ((64 * 1024, 8), (8, 8192)):
            with pytest.raises(OSError, match="cannot choose"):
                Chooser(descriptor, capacity, owners)


@pytest.mark.parametrize(("capacity", "owners"), [(0, 8), (8, 0), (2**20 + 1, 8), (8, 2**14 + 1)])
def test_none_or_too_many_handles_or_owners_are_refused(capacity: int, owners: int) -> None:
    with pytest.raises(OSError, match="cannot make a ledger"), ledger_file(capacity, owners):
        pass


def test_the_largest_ledger_works() -> None:
    with ledger_rig(2**20, 2**14) as rig:
        rig.tell({0: (9, [2**20 - 1]), 1: (8, [0])})
        assert rig.chooser.choose([2**20 - 1, 0], 1).handles == [0]


def test_an_engine_at_work_is_followed_step_by_step() -> None:
    """Requests come with a prompt that they share, grow by a block at a time, and go."""
    source = random.Random(5)
    capacity = 300
    live: dict[str, tuple[int, set[int]]] = {}
    with ledger_rig(capacity) as rig:
        for step in range(150):
            for name in [name for name in live if source.random() < 0.05]:
                rig.ledger.drop(name)
                del live[name]
            if len(live) < 30:
                live[f"request-{step}"] = (source.randrange(1, 500), set(range(source.choice([0, 8]))))
            grown = {name: source.randrange(capacity) for name in live if source.random() < 0.5}
            for name, block in grown.items():
                live[name] = (live[name][0] + 16, live[name][1] | {block})
                rig.ledger.add(name, [block])
            for name, (_, own) in live.items():
                rig.ledger.add(name, own)
            rig.ledger.charge({name: tokens for name, (tokens, _) in live.items()})
        assert len(live) > 10
        eligible = source.sample(range(capacity), 200)
        assert rig.chooser.choose(eligible, 150).tokens == loss(live, reference(live, eligible, 150))


def test_a_child_of_fork_changes_nothing() -> None:
    with ledger_rig(8) as rig:
        rig.tell({"a": (4, [2]), "b": (5, [3])})
        child = os.fork()
        if child == 0:
            rig.ledger.charge({"a": 9, "c": 1})
            rig.ledger.add("c", [2, 5])
            rig.ledger.remove("a", [2])
            rig.ledger.drop("b")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert [tokens for tokens, _, _ in costs(rig, 8)] == [0, 0, 4, 5, 0, 0, 0, 0]
