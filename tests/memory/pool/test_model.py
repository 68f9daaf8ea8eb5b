"""Ten thousand random operations on four processes, some of which are killed, beside a model of who has what."""

import mmap
import random

from memory.members import Process, held_bytes

from rowen.node_agent.memory.pool_status import Kind

BYTES = mmap.PAGESIZE
TOTAL, CAPACITY, MEMBERS, OPERATIONS = 40, 24, 4, 10_000


class Modelled:
    """A member, and what it should have."""

    def __init__(self, admission, kind: Kind, process: Process) -> None:
        self.admission, self.kind, self.process = admission, kind, process
        self.number = admission.number
        self.content: dict[int, int] = {}
        """Handle → what was written to all of it last."""
        self.taken = 0


class World:
    def __init__(self, seed, pool, start_member) -> None:
        self.source, self.pool, self.start = random.Random(seed), pool, start_member
        self.now = 1.0
        self.values = 1
        self.kills = self.takes = self.maps = 0
        self.members = [self.born(Kind.ONLINE if place < 2 else Kind.OFFLINE) for place in range(MEMBERS)]

    def born(self, kind: Kind) -> Modelled:
        admission = self.pool.admit(kind, CAPACITY)
        return Modelled(admission, kind, self.start(admission))

    def some(self, most: int = 6) -> list[int]:
        return self.source.sample(range(CAPACITY), self.source.randint(1, most))

    # One random operation each.

    def map(self, member: Modelled) -> None:
        handles = self.some()
        count = member.process.ask("map", *handles)
        if set(handles) & member.content.keys():
            assert count == -22
            return
        granted = self.pool.status().of(member.number).granted
        assert count == max(0, min(len(handles), granted - len(member.content)))
        self.maps += count
        for handle in handles[:count]:
            assert member.process.text("show", handle) == "0", "a new owner reads what another has written"
            self.fill(member, handle)

    def fill(self, member: Modelled, handle: int) -> None:
        self.values += 1
        member.process.ask("fill", handle, self.values)
        member.content[handle] = self.values

    def unmap(self, member: Modelled) -> None:
        handles = self.some()
        known = [handle for handle in handles if handle in member.content]
        assert member.process.ask("unmap", *handles) == (0 if known == handles else -22)
        if known != handles and known:
            assert member.process.ask("unmap", *known) == 0
        for handle in known:
            del member.content[handle]

    def read(self, member: Modelled) -> None:
        for handle, value in self.source.sample(sorted(member.content.items()), min(3, len(member.content))):
            assert member.process.text("show", handle) == str(value)
        member.process.ask("fill", self.source.choice([h for h in range(CAPACITY) if h not in member.content]), 99)

    def grant(self, member: Modelled) -> None:
        self.pool.grant(member.number, self.source.randint(0, CAPACITY))

    def say(self, member: Modelled) -> None:
        member.process.ask("want", self.source.randint(0, 2 * CAPACITY))
        member.process.ask("use", self.source.randint(0, CAPACITY))

    def decide(self, member: Modelled) -> None:
        low, high = sorted(self.source.choices(range(CAPACITY + 1), k=2))
        if member.kind == Kind.OFFLINE:
            self.pool.share(member.number, low // 4, high)
        else:
            pressures = self.pool.status().of(member.number).pressures
            self.pool.demand(member.number, pressures=pressures, target=low, growth=high, threshold=0.9)

    def serve(self, _: Modelled) -> None:
        self.now += self.source.random()
        self.pool.serve(self.now, offline_stopped=False)

    def reclaim(self, member: Modelled) -> None:
        member.process.ask("park")
        self.takes += self.pool.reclaim(member.number, self.some(12))
        self.go_on([member])

    def serve_stopped(self, _: Modelled) -> None:
        offline = [member for member in self.members if member.kind == Kind.OFFLINE]
        for member in offline:
            member.process.ask("park")
        before = self.pool.status()
        self.now += self.source.random()
        self.pool.serve(self.now, offline_stopped=True)
        self.takes += self.pool.status().handles_reclaimed - before.handles_reclaimed
        self.pool.settle()
        self.go_on(offline)

    def go_on(self, stopped: list[Modelled]) -> None:
        for member in stopped:
            assert member.process.ask("go") == 0
            lost = member.process.lost()
            assert set(lost) <= member.content.keys()
            for handle in lost:
                del member.content[handle]
            member.taken += len(lost)

    def die(self, member: Modelled) -> None:
        member.process.kill()
        self.pool.dismiss(member.number)
        self.members[self.members.index(member)] = self.born(member.kind)
        self.kills += 1

    def step(self) -> None:
        operations = [self.map, self.unmap, self.read, self.grant, self.say, self.decide, self.serve, self.reclaim,
                      self.serve_stopped, self.die]  # fmt: skip
        weights = [30, 15, 10, 5, 5, 5, 10, 8, 8, 1]
        (operation,) = self.source.choices(operations, weights)
        operation(self.source.choice(self.members))

    def check(self) -> None:
        """No handle is owned twice, and each member has what the model says."""
        status = self.pool.status()
        really = [held_bytes(member.admission) // BYTES for member in self.members]
        assert sum(really) <= TOTAL
        assert sum(found.owned for found in status.members) + status.free == TOTAL
        for member, count in zip(self.members, really, strict=True):
            found = status.of(member.number)
            assert found.held == found.really_held == count == len(member.content)
            assert found.owned == max(found.granted, count)
            assert (found.overdrawn, found.taken) == (0, member.taken)


def test_no_handle_is_owned_twice(make_pool, start_member):
    world = World(2024, make_pool(TOTAL, BYTES), start_member)
    for _ in range(OPERATIONS):
        world.step()
        world.check()
    assert min(world.kills, world.takes, world.maps) > 50
