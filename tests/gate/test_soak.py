"""Agents, engines and tenants are killed and started at random; online work goes on, offline work stays gated.

ROWEN_SOAK_SECONDS lengthens it: 600 for the ten minutes that a release is tried with.
"""

import os
import random
import subprocess
import sys
import time

import pytest
from gate.rig import until
from gate.test_failures import agent_command, agent_environment

SECONDS = float(os.environ.get("ROWEN_SOAK_SECONDS", "15"))


class World:
    """What lives and dies."""

    def __init__(self, rig, seed):
        self.rig = rig
        self.random = random.Random(seed)
        rig.agent.close()
        self.agent = None
        self.engine = None
        self.tenants = {}
        self.deaths = 0

    def start_agent(self):
        self.agent = subprocess.Popen(
            agent_command(self.rig), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=agent_environment()
        )
        assert self.agent.stdout.readline() == "serving\n"

    def kill_agent(self):
        self.agent.kill()
        self.agent.wait()
        self.agent = None

    def start_missing(self):
        if self.agent is None:
            self.start_agent()
        if self.engine is None:
            self.engine = self.rig.engine()
        for slot in range(2):
            if slot not in self.tenants:
                self.tenants[slot] = self.rig.tenant("spin()", slot=slot)

    def kill_one(self):
        self.deaths += 1
        victim = self.random.choice(["agent", "engine", "tenant"])
        if victim == "agent":
            self.kill_agent()
        elif victim == "engine":
            self.engine.kill()
            self.engine = None
        else:
            self.tenants.pop(self.random.choice(list(self.tenants))).kill()

    def request(self):
        """A request of some milliseconds; while it is in flight offline work comes to a stand and stays there."""
        self.engine.call("busy")
        for tenant in self.tenants.values():
            until(lambda tenant=tenant: stands(tenant), "offline work stops")
        for tenant in self.tenants.values():
            tenant.stands_still()
        self.engine.call("idle")


def stands(tenant):
    before = tenant.counts()
    time.sleep(0.005)
    return tenant.counts() == before


@pytest.mark.timeout(int(SECONDS * 2 + 240))
def test_random_deaths(make_rig):
    rig = make_rig(backstop=0.05)
    world = World(rig, seed=20261122)
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            world.start_missing()
            for _ in range(world.random.randrange(1, 4)):
                world.request()
                if world.random.random() < 0.5:
                    time.sleep(world.random.random() * 0.3)
            world.kill_one()
            if world.engine is not None and world.random.random() < 0.7:
                # Also without an agent, or with one that is just about to come.
                world.request()
        world.start_missing()
        for tenant in world.tenants.values():
            tenant.advances()
    finally:
        if world.agent is not None:
            world.kill_agent()
        print(f"{world.deaths} deaths in {SECONDS:.0f} s", file=sys.stderr)
        rig.serve()
