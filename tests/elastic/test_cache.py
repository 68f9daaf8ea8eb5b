"""Blocks and handles agree, whatever vLLM, the grant, the owner and the two threads do."""

import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
from elastic.hostile_arena import HostileArena
from memory.local_arena import RUBBISH

from rowen.runtime.vllm.elastic import slab_memory
from rowen.runtime.vllm.elastic.cache import ElasticCache
from rowen.runtime.vllm.elastic.geometry import Geometry
from rowen.runtime.vllm.elastic.keeper import Keeper

GEOMETRIES = {
    "two blocks on a handle": Geometry(64, 12, 32),
    "a block on a handle": Geometry(64, 12, 64),
    "a block on two handles": Geometry(64, 24, 128),
}
EIGHT_HANDLES = Geometry(64, 48, 512)
"""A block on eight handles: 1 begins at handle 8, 2 at 16."""


class Rig:
    """vLLM's block pool on an arena, without an engine."""

    def __init__(self, geometry: Geometry, grant: int = 0) -> None:
        from vllm.v1.core.block_pool import BlockPool

        self.geometry = geometry
        self.arena = HostileArena(geometry.handles, geometry.handle_bytes, grant)
        self.pool: BlockPool = BlockPool(geometry.blocks, enable_caching=True, hash_block_size=1)
        self.cache = ElasticCache(self.arena, geometry, self.pool)
        self.hashes = 0

    def settle(self) -> None:
        """What the keeper does."""
        while self.cache.balance():
            pass

    def claim(self) -> None:
        """What the engine does that lacks a block."""
        with self.cache.lock:
            self.cache.claim(1)

    def claim_all(self) -> None:
        """What it does that lacks all of them."""
        with self.cache.lock:
            self.cache.claim(self.geometry.blocks)

    def lose(self, handles: Sequence[int]) -> set[int]:
        """They are taken, and the engine hears of it; returns the blocks."""
        self.arena.take(handles)
        with self.cache.lock:
            return self.cache.lost_blocks()

    def take(self, count: int) -> list[int]:
        with self.cache.lock:
            return [block.block_id for block in self.pool.get_new_blocks(count)]

    def take_all(self) -> list[int]:
        return self.take(self.cache.free_blocks)

    def find(self, block: int) -> None:
        """A request has the cached block, too."""
        self.pool.touch([self.pool.blocks[block]])

    def free(self, numbers: Sequence[int], cached: bool = False) -> None:
        """Lets go of blocks, as prefixes that may be found or not."""
        from vllm.v1.core.kv_cache_utils import BlockHash, make_block_hash_with_group_id

        blocks = [self.pool.blocks[number] for number in numbers]
        with self.cache.lock:
            for block in blocks if cached else []:
                if block.block_hash is None:
                    self.hashes += 1
                    name = make_block_hash_with_group_id(BlockHash(self.hashes.to_bytes(8, "little")), 0)
                    self.pool._insert_block_hash(name, block, num_tokens=1)
            self.pool.free_blocks(blocks)

    def cached(self) -> list[int]:
        return [block.block_id for block in self.pool.blocks if block.block_hash is not None]

    def free_blocks(self) -> list[int]:
        return [block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()]

    def most(self, grant: int) -> int:
        """Handles that are mapped with such a grant in the end: whole slabs, without that of the null block alone."""
        slabs = sum(bool(self.geometry.blocks_of(slab)) for slab in range(self.geometry.slabs))
        per_slab = self.geometry.handles_per_slab
        return min(grant // per_slab, slabs) * per_slab

    def agree(self) -> None:
        free = self.free_blocks()
        used = [block.block_id for block in self.pool.blocks if block.ref_cnt and not block.is_null]
        assert len(set(free)) == len(free) == self.cache.free_blocks
        assert not {0, *used} & set(free)
        if not self.cache._memory.has_losses:
            assert self.geometry.handles_of_blocks([*free, *used, *self.cached()]) <= self.arena.mapped
            assert self.cache._memory.mapped == len(self.arena.mapped)
        assert self.pool.get_usage() == pytest.approx(len(used) / max(1, len(used) + len(free)))


@pytest.fixture(params=GEOMETRIES)
def geometry(request: pytest.FixtureRequest) -> Geometry:
    return GEOMETRIES[request.param]


def test_without_a_grant_nothing_is_free(geometry: Geometry) -> None:
    rig = Rig(geometry)
    rig.settle()
    assert rig.cache.free_blocks == 0
    rig.agree()


def test_blocks_come_with_the_grant(geometry: Geometry) -> None:
    rig = Rig(geometry)
    for grant in (1, 5, geometry.handles):
        rig.arena.set_grant(grant)
        rig.settle()
        assert len(rig.arena.mapped) == rig.most(grant)
        rig.agree()
    assert rig.cache.free_blocks == geometry.blocks - 1


def test_what_nobody_uses_is_given_back_first(geometry: Geometry) -> None:
    rig = Rig(geometry, geometry.handles)
    rig.settle()
    kept, old, young = (rig.take(geometry.blocks_per_slab) for _ in range(3))
    rest = rig.take_all()
    rig.free(old, cached=True)
    rig.free(young, cached=True)
    rig.free(rest)
    handles = len(rig.arena.mapped - geometry.handles_of_blocks(rest))
    rig.arena.set_grant(handles)
    rig.settle()
    assert rig.cached() == sorted([*old, *young])
    rig.arena.set_grant(handles - 1)
    rig.settle()
    # Of those with content what was used first.
    assert rig.cached() == sorted(young)
    assert geometry.handles_of_blocks(kept) <= rig.arena.mapped
    rig.agree()


def test_a_slab_in_use_is_given_back_when_it_is_free(geometry: Geometry) -> None:
    rig = Rig(geometry, geometry.handles)
    rig.settle()
    blocks = rig.take_all()
    rig.arena.set_grant(0)
    rig.settle()
    assert len(rig.arena.mapped) == rig.most(geometry.handles)
    rig.free(blocks[:-1], cached=True)
    rig.settle()
    assert rig.arena.mapped == geometry.handles_of_blocks([blocks[-1]])
    assert rig.cache.free_blocks == 0
    rig.free(blocks[-1:], cached=True)
    rig.settle()
    assert rig.arena.mapped == set()
    rig.agree()


def test_a_slab_that_was_to_be_given_back_is_kept_when_the_grant_returns(geometry: Geometry) -> None:
    rig = Rig(geometry, geometry.handles)
    rig.settle()
    blocks = rig.take_all()
    rig.arena.set_grant(0)
    rig.settle()
    rig.arena.set_grant(geometry.handles)
    rig.settle()
    rig.free(blocks, cached=True)
    assert rig.cache.free_blocks == len(blocks)
    assert len(rig.cached()) == len(blocks)
    rig.agree()


def test_the_engine_maps_what_it_needs_at_once(geometry: Geometry) -> None:
    rig = Rig(geometry, geometry.handles)
    with rig.cache.lock:
        rig.cache.claim(3)
    assert 3 <= rig.cache.free_blocks < 3 + geometry.blocks_per_slab
    with rig.cache.lock:
        rig.cache.claim(3)
    assert rig.cache.free_blocks < 3 + geometry.blocks_per_slab
    rig.arena.set_grant(len(rig.arena.mapped) + geometry.handles_per_slab - 1)
    free = rig.cache.free_blocks
    with rig.cache.lock:
        rig.cache.claim(geometry.blocks)
    assert rig.cache.free_blocks == free
    rig.agree()


def test_the_engine_takes_back_what_was_to_be_given_back(geometry: Geometry) -> None:
    rig = Rig(geometry, geometry.handles)
    rig.settle()
    blocks = rig.take_all()
    rig.arena.set_grant(0)
    rig.settle()
    rig.free(blocks)
    assert rig.cache.free_blocks == 0
    rig.arena.set_grant(geometry.handles)
    with rig.cache.lock:
        rig.cache.claim(1)
    assert 1 <= rig.cache.free_blocks <= geometry.blocks_per_slab
    rig.agree()


def test_lost_blocks_are_told_once_and_neither_found_nor_handed_out(geometry: Geometry) -> None:
    rig = Rig(geometry)
    rig.arena.set_grant(rig.most(geometry.handles))
    rig.settle()
    blocks = rig.take_all()
    rig.free(blocks, cached=True)
    slab = blocks[len(blocks) // 2] // geometry.blocks_per_slab
    lost_handle = geometry.handles_of(slab)[-1]
    rig.arena.take([lost_handle])
    with rig.cache.lock:
        assert rig.cache.lost_blocks() == set(geometry.blocks_of(slab))
        assert rig.cache.lost_blocks() == set()
    assert not set(geometry.blocks_of(slab)) & {*rig.free_blocks(), *rig.cached()}
    rig.agree()
    # The rest of the slab is of no use, and the first to be given back.
    rig.settle()
    rig.arena.set_grant(rig.arena.grant - (geometry.handles_per_slab - 1))
    rig.settle()
    assert not set(geometry.handles_of(slab)) & rig.arena.mapped
    rig.arena.set_grant(geometry.handles)
    rig.settle()
    assert rig.cache.free_blocks == len(blocks)
    rig.agree()


def test_a_taken_slab_is_completed_before_another_is_begun() -> None:
    geometry = GEOMETRIES["a block on two handles"]
    rig = Rig(geometry, 8)
    rig.settle()
    rig.arena.take([7])
    with rig.cache.lock:
        rig.cache.lost_blocks()
    rig.arena.set_grant(8)
    rig.settle()
    assert rig.arena.mapped == set(range(2, 10))


@pytest.mark.parametrize("work", [Rig.settle, Rig.claim])
def test_two_slabs_of_which_a_part_was_taken_make_one(work: Callable[[Rig], None]) -> None:
    rig = Rig(EIGHT_HANDLES, 16)
    rig.settle()
    assert rig.lose([15, 23]) == {1, 2}
    assert (rig.cache.free_blocks, len(rig.arena.mapped), rig.arena.grant) == (0, 14, 14)
    work(rig)
    assert rig.free_blocks() == [1]
    rig.agree()


@pytest.mark.parametrize("work", [Rig.settle, Rig.claim])
def test_they_make_one_where_the_pods_limit_is_near(work: Callable[[Rig], None]) -> None:
    rig = Rig(EIGHT_HANDLES, 16)
    rig.settle()
    rig.lose([15, 23])
    rig.arena.set_grant(48)
    rig.arena.room = 14
    work(rig)
    assert rig.free_blocks() == [1]
    rig.agree()


@pytest.mark.parametrize("work", [Rig.settle, Rig.claim])
def test_the_slab_that_lacks_the_fewest_handles_is_completed(work: Callable[[Rig], None]) -> None:
    rig = Rig(EIGHT_HANDLES, 16)
    rig.settle()
    rig.lose([8, 9, 10, 11, 12, 23])
    rig.arena.set_grant(11)
    work(rig)
    assert rig.free_blocks() == [2]
    assert len(rig.arena.mapped) == 11
    # More of the other one may be taken.
    rig.lose([13, 14])
    rig.arena.set_grant(16)
    work(rig)
    rig.settle()
    assert sorted(rig.free_blocks()) == [1, 2]
    rig.agree()


def test_who_lacks_a_block_wants_more_than_is_held_in_part() -> None:
    rig = Rig(EIGHT_HANDLES, 16)
    rig.settle()
    rig.take(1)
    rig.lose([23])
    with rig.cache.lock:
        rig.cache.tell(1)
    assert rig.arena.wanted == 16 > len(rig.arena.mapped)


def test_an_idle_cache_hears_of_a_loss_without_the_engine(geometry: Geometry) -> None:
    rig = Rig(geometry)
    rig.arena.set_grant(rig.most(geometry.handles))
    rig.settle()
    rig.free(rig.take_all(), cached=True)
    rig.arena.buffer[:] = b"\xff" * len(rig.arena.buffer)
    slab = geometry.slab_of_handle(max(rig.arena.mapped))
    rig.arena.take([max(rig.arena.mapped)])
    rig.settle()
    assert not set(geometry.blocks_of(slab)) & set(rig.cached())
    # A smaller share is obeyed, too.
    rig.arena.set_grant(2 * geometry.handles_per_slab)
    rig.settle()
    assert len(rig.arena.mapped) == rig.arena.grant
    rig.agree()


def test_what_an_idle_cache_has_left_of_a_slab_is_zeroed() -> None:
    geometry = GEOMETRIES["a block on two handles"]
    rig = Rig(geometry, 8)
    rig.settle()
    rig.arena.buffer[:] = b"\xff" * len(rig.arena.buffer)
    rig.arena.take([7])
    rig.settle()
    rig.arena.set_grant(8)
    rig.settle()
    assert {6, 7} <= rig.arena.mapped
    assert bytes(rig.arena.buffer[6 * 64 : 8 * 64]) == bytes(128)


def test_nothing_is_mapped_while_a_loss_has_not_been_told(geometry: Geometry) -> None:
    rig = Rig(geometry, geometry.handles // 2)
    rig.settle()
    rig.take(1)
    rig.arena.take([max(rig.arena.mapped)])
    rig.arena.set_grant(geometry.handles)
    before = set(rig.arena.mapped)
    rig.settle()
    with rig.cache.lock:
        rig.cache.claim(geometry.blocks)
    assert rig.arena.mapped == before


def test_meaningless_blocks_are_zeroed_and_not_found() -> None:
    geometry = GEOMETRIES["two blocks on a handle"]
    rig = Rig(geometry, geometry.handles)
    rig.settle()
    blocks = rig.take(4)
    rig.free(blocks, cached=True)
    first = blocks[1]
    rig.arena.buffer[:] = b"\xff" * len(rig.arena.buffer)
    with rig.cache.lock:
        rig.cache.scrub({first})
    content = bytes(rig.arena.buffer)
    assert content[first * 32 : first * 32 + 32] == bytes(32)
    assert content.count(0) == 32
    assert rig.cached() == sorted({*blocks} - {first})


def test_what_has_no_memory_is_not_zeroed(geometry: Geometry) -> None:
    """It is when it gets memory again; until then each of its pages would be a page fault."""
    rig = Rig(geometry)
    rig.arena.set_grant(rig.most(geometry.handles))
    rig.settle()
    rig.take_all()
    taken = sorted(rig.arena.mapped)[::3]
    rig.arena.buffer[:] = bytes([RUBBISH]) * len(rig.arena.buffer)
    rig.arena.take(taken)
    with rig.cache.lock:
        lost = rig.cache.lost_blocks()
        rig.cache.scrub(lost)
    size = geometry.handle_bytes
    zeroed = {handle for handle in range(geometry.handles) if not any(rig.arena.buffer[handle * size :][:size])}
    assert zeroed == geometry.handles_of_blocks(lost) - {*taken}


@pytest.mark.parametrize(
    ("name", "used", "more", "expected"),
    [
        # Slabs of two blocks: the null block has the first place of slab 0.
        ("two blocks on a handle", 0, 0, (0, 0)),
        ("two blocks on a handle", 1, 0, (1, 1)),
        ("two blocks on a handle", 1, 1, (1, 1)),
        ("two blocks on a handle", 1, 2, (1, 2)),
        ("two blocks on a handle", 3, 2, (2, 3)),
        ("two blocks on a handle", 3, 100, (2, 12)),
        ("a block on a handle", 2, 3, (2, 5)),
        ("a block on two handles", 2, 3, (4, 10)),
        ("a block on two handles", 2, 100, (4, 24)),
    ],
)
def test_use_and_want_are_told_in_handles(name: str, used: int, more: int, expected: tuple[int, int]) -> None:
    rig = Rig(GEOMETRIES[name], 24)
    rig.settle()
    rig.take(used)
    with rig.cache.lock:
        rig.cache.tell(more)
    assert (rig.arena.used, rig.arena.wanted) == expected


def test_what_could_not_be_told_during_a_call_is_told_after_it() -> None:
    rig = Rig(GEOMETRIES["a block on a handle"], 12)
    rig.settle()
    with rig.cache._memory._calls:
        rig.take(2)
        with rig.cache.lock:
            rig.cache.tell(1)
        assert rig.arena.used == 0
    rig.cache.balance()
    assert (rig.arena.used, rig.arena.wanted) == (2, 3)


def test_a_wait_asks_for_whole_slabs_beyond_what_is_mapped(geometry: Geometry) -> None:
    rig = Rig(geometry, geometry.handles // 2)
    rig.settle()
    asked: list[int] = []
    rig.arena.on_wait = asked.append
    rig.cache.wait(rig.cache.free_blocks + 1, 0.001)
    rig.cache.wait(rig.cache.free_blocks + 4, 0.001)
    mapped, slabs = len(rig.arena.mapped), -(-4 // geometry.blocks_per_slab)
    assert asked == [mapped + geometry.handles_per_slab, mapped + slabs * geometry.handles_per_slab]


def waits(rig: Rig, blocks: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the engine sleeps that waits 20 ms for so many blocks, which are granted."""
    slept: list[float] = []
    monkeypatch.setattr(slab_memory, "time", SimpleNamespace(sleep=slept.append))
    rig.arena.on_wait = lambda grant: pytest.fail(f"it waits for a grant of {grant}")
    rig.cache.wait(blocks, 0.02)
    return slept


def test_what_the_keeper_is_about_to_map_is_there_in_a_moment(
    geometry: Geometry, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(geometry, geometry.handles)
    assert waits(rig, 1, monkeypatch) == [0.001]
    rig.settle()
    assert waits(rig, rig.cache.free_blocks, monkeypatch) == []


@pytest.mark.parametrize("work", [Rig.settle, Rig.claim_all])
def test_for_the_pods_limit_it_waits_as_long_as_it_may(
    work: Callable[[Rig], None], geometry: Geometry, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(geometry, geometry.handles)
    rig.arena.room = rig.most(geometry.handles // 2)
    work(rig)
    assert rig.cache.is_limited
    assert rig.cache.most == rig.arena.room
    assert waits(rig, rig.cache.free_blocks + 1, monkeypatch) == [0.02]
    rig.arena.room = geometry.handles
    work(rig)
    assert not rig.cache.is_limited
    assert rig.cache.most == geometry.handles


def test_what_is_not_granted_is_not_the_pods_limit(geometry: Geometry) -> None:
    rig = Rig(geometry, geometry.handles - 1)
    rig.arena.room = rig.most(geometry.handles // 2)
    rig.settle()
    assert rig.cache.is_limited
    rig.arena.set_grant(rig.arena.room)
    rig.claim_all()
    assert not rig.cache.is_limited


def _disturb(rig: Rig, held: list[list[int]], chance: random.Random) -> None:
    """Something that may happen."""
    match chance.randrange(8):
        case 0:
            rig.arena.set_grant(chance.randint(0, rig.geometry.handles))
        case 1:
            rig.settle()
        case 2:
            rig.cache.balance()
        case 3 if rig.cache.free_blocks:
            held.append(rig.take(chance.randint(1, min(4, rig.cache.free_blocks))))
        case 4 if held:
            rig.free(held.pop(chance.randrange(len(held))), cached=chance.random() < 0.5)
        case 5 if rig.cached():
            held.append([chance.choice(rig.cached())])
            rig.find(held[-1][0])
        case 6 if rig.arena.mapped:
            mapped = sorted(rig.arena.mapped)
            rig.arena.take(chance.sample(mapped, chance.randint(1, min(3, len(mapped)))))
        case 7:
            rig.arena.room = chance.randint(0, rig.geometry.handles)


@pytest.mark.parametrize("seed", range(15))
def test_everything_at_random(geometry: Geometry, seed: int) -> None:
    chance = random.Random(seed)
    rig = Rig(geometry, chance.randint(0, geometry.handles))
    held: list[list[int]] = []
    for _ in range(300):
        _disturb(rig, held, chance)
        if chance.random() < 0.7:
            with rig.cache.lock:
                lost = rig.cache.lost_blocks()
                rig.cache.scrub(lost)
                for blocks in [blocks for blocks in held if lost & set(blocks)]:
                    held.remove(blocks)
                    rig.free(blocks)
        rig.agree()
    rig.arena.set_grant(geometry.handles)
    rig.arena.room = geometry.handles
    with rig.cache.lock:
        rig.cache.scrub(rig.cache.lost_blocks())
    for blocks in held:
        rig.free(blocks)
    rig.settle()
    assert rig.cache.free_blocks == geometry.blocks - 1
    rig.agree()


def test_the_keeper_follows_the_grant_by_itself() -> None:
    from elastic.scenarios import until

    rig = Rig(GEOMETRIES["a block on a handle"])
    keeper = Keeper(rig.cache)
    for grant in (5, 12, 3, 0):
        rig.arena.set_grant(grant)
        until(lambda grant=grant: len(rig.arena.mapped) == rig.most(grant), "the keeper follows")  # type: ignore[misc]
    keeper.stop()
    rig.agree()
