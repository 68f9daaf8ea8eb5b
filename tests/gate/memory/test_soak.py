"""Agents, engines and tenants with memory are killed and started at random; online work goes on, offline work stays
gated, and each handle is one process's at most.

ROWEN_SOAK_SECONDS lengthens it: 600 for the ten minutes that a release is tried with.
"""

import os
import random
import sys
import tempfile
import time
from pathlib import Path

import pytest
from gate.borrower import Borrower
from gate.memory.agent_apart import AgentApart
from gate.memory.node_rig import NodeRig
from gate.rig import until

from rowen.crds.service.online_service import HarvestMemory

SECONDS = float(os.environ.get("ROWEN_SOAK_SECONDS", "15"))
LEAST_ROUNDS = 4
HANDLES, ENGINE_FIXED, ENGINE_PART, TENANT_FIXED, TENANT_PART = 64, 4, 24, 2, 40
MARK = 5

# Takes what it is granted, and looks again and again whether what it wrote is there or was said to be lost.
TENANT = """
from rowen.runtime import native
arena = None
while arena is None:
    try:
        arena = native.memory().arena
    except OSError:
        time.sleep(0.05)
written = {}
turn = 0
def word(handle):
    return slice(handle * arena.handle_bytes, handle * arena.handle_bytes + 8)
def forget():
    for handle in arena.lost():
        del written[handle]
        count(1)
def look(handle):
    if int.from_bytes(arena.buffer[word(handle)], "little") == written[handle]:
        return
    for _ in range(2000):
        forget()
        if handle not in written:
            return
        time.sleep(0.005)
    raise SystemExit(f"handle {handle} is not what it was, and nobody said that it was lost")
while True:
    count()
    turn += 1
    arena.want(arena.capacity)
    forget()
    grant = arena.grant
    more = [handle for handle in range(arena.capacity) if handle not in written][:max(0, grant - len(written))]
    mapped = more[:arena.map(more)]
    written.update(dict.fromkeys(mapped, 0))  # all of them first: each of them may be lost while another is looked at
    for handle in mapped:
        if handle in written:
            look(handle)
    over = list(written)[max(grant, 0):]
    arena.unmap(over)
    for handle in over:
        del written[handle]
    for handle in list(written):
        if handle in written:
            look(handle)
    for handle in written:
        written[handle] = turn << 20 | handle
        arena.buffer[word(handle)] = written[handle].to_bytes(8, "little")
"""


class World:
    """What lives and dies."""

    def __init__(self, rig, seed):
        self.rig = rig
        self.random = random.Random(seed)
        rig.place(None, fixed=ENGINE_FIXED, pool=ENGINE_PART, memory=HarvestMemory(target_reclaims_per_hour=600))
        for slot in range(2):
            rig.place(slot, fixed=TENANT_FIXED, pool=TENANT_PART)
        rig.agent.close()
        self.agent = self.engine = None
        self.held = 0
        self.tenants = {}
        self.deaths = self.rounds = self.lost = 0

    def start_missing(self):
        if self.agent is None:
            self.agent = AgentApart(self.rig)
        if self.engine is None:
            self.engine, self.held = Borrower(self.rig, None).ready(), 0
            sizes = (HANDLES, HANDLES - ENGINE_FIXED)  # before the agent knows its pod, and then
            until(lambda: self.engine.ask("open") in sizes, "the engine has its arena")
        for slot in range(2):
            if slot not in self.tenants:
                self.tenants[slot] = self.rig.tenant(TENANT, slot=slot)

    def kill(self, victim):
        self.deaths += 1
        if victim == "agent":
            self.agent.kill()
            self.agent = None
        elif victim == "engine":
            self.engine.kill()
            self.engine = None
        else:
            tenant = self.tenants.pop(self.random.choice(list(self.tenants)))
            self.check_runs(tenant)
            self.lost += tenant.counts(2)[1]
            tenant.kill()

    def check_runs(self, tenant):
        status = tenant.process.poll()
        assert status is None, f"a tenant ended with {status}: {tenant.process.stderr.read()[-2000:]}"

    def begin(self):
        """A request is in flight: offline work comes to a stand and stays there."""
        self.engine.ask("busy")
        for tenant in self.tenants.values():
            until(lambda tenant=tenant: stands(tenant), "offline work stops")
        self.stands_still()

    def stands_still(self):
        for tenant in self.tenants.values():
            tenant.stands_still()

    def request(self):
        """A request of some milliseconds, with another need of memory than the last one."""
        self.begin()
        self.need(self.random.randrange(1, ENGINE_PART + 1))
        self.stands_still()
        self.engine.ask("idle")

    def need(self, handles):
        """The engine needs so many. Without an agent it has what it was granted, or waits and takes them itself."""
        if handles < self.held:
            self.engine.ask("want", handles)
            self.engine.ask("unmap", handles, self.held - handles)
            self.held = handles
        elif handles > self.held:
            self.engine.ask("want", handles)
            if self.agent is not None or self.random.random() < 0.5:
                until(lambda: self.grow(handles), "the engine has what it needs")
            else:
                self.grow(handles)
                self.engine.ask("want", self.held)
        self.engine.ask("use", self.held)
        assert self.engine.ask("sum", 0, self.held) == MARK * self.held

    def grow(self, handles):
        got = self.engine.ask("map", self.held, handles - self.held)
        self.engine.ask("fill", self.held, got, MARK)
        self.held += got
        return self.held == handles

    def check_owners(self):
        """Everybody has handed over, nobody has more than it may, and no handle is lost or has two owners."""
        for tenant in self.tenants.values():
            self.check_runs(tenant)
        living = {self.engine.process.pid, *(tenant.process.pid for tenant in self.tenants.values())}
        until(lambda: whole(self.agent.pool(), living, self.engine.process.pid), "each handle has its owner")


def whole(pool, living, engine):
    """Whether all is at rest and accounted for. Fails on what may not be at any moment."""
    members = pool["members"]
    assert pool["kept"] == 0, "nobody kept what it was not granted"
    for member in members:
        pid = pool["pids"].get(str(member["number"]))
        assert member["granted"] <= (ENGINE_PART if pid == engine else TENANT_PART) or pid is None, pool
    return (
        set(pool["pids"].values()) == living
        and len(members) == len(living)
        # An engine that was alone may have more than there is, for a moment.
        and pool["free"] + pool["fixed"] + sum(member["owned"] for member in members) == pool["total"]
        and all(max(member["held"], member["really_held"]) <= member["granted"] for member in members)
    )


def stands(tenant):
    before = tenant.counts()
    time.sleep(0.02)
    return tenant.counts() == before


@pytest.fixture
def rig():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        rig = NodeRig(Path(folder) / "n", cpu=max(os.sched_getaffinity(0)), handles=HANDLES, backstop=0.05)
        yield rig
        rig.close()


def one_round(world):
    world.start_missing()
    for _ in range(world.random.randrange(1, 4)):
        world.request()
        if world.random.random() < 0.5:
            time.sleep(world.random.random() * 0.3)
    world.check_owners()
    across = world.random.random() < 0.5
    if across:
        world.begin()
    for victim in world.random.sample(["agent", "engine", "tenant"], world.random.randrange(1, 3)):
        world.kill(victim)
    if world.engine is not None and across:
        world.stands_still()
        world.engine.ask("idle")
    if world.engine is not None and world.random.random() < 0.7:
        # Also without an agent, or with one that is just about to come.
        world.request()
    world.rounds += 1


@pytest.mark.timeout(int(SECONDS * 2 + 600))
def test_random_deaths(rig):
    world = World(rig, seed=20261122)
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end or world.rounds < LEAST_ROUNDS:
            one_round(world)
        world.start_missing()
        world.check_owners()
        for tenant in world.tenants.values():
            tenant.advances()
        world.lost += sum(tenant.counts(2)[1] for tenant in world.tenants.values())
        assert world.lost > 0, "memory was taken from nobody"
    finally:
        if world.agent is not None:
            world.agent.kill()
        print(f"{world.deaths} deaths, {world.lost} handles taken in {world.rounds} rounds", file=sys.stderr)
        rig.start()
