"""Where the threads of engines and tenants run."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gate.rig import COUNTER, DOOR_LATE, thread_names, until

from rowen.node_agent.native import library_path

ENGINE = """
import ctypes, sys, threading
library = ctypes.CDLL(sys.argv[1])
library.rowen_online_attach.argtypes = [ctypes.c_char_p]
threading.Thread(target=threading.Event().wait, daemon=True).start()
for line in sys.stdin:
    attaches = line == "attach\\n"
    print(library.rowen_online_attach(sys.argv[2].encode()) if attaches else library.rowen_online_pin(), flush=True)
"""


class Engine:
    """Attaches and pins when it is told, and has a second thread."""

    def __init__(self, rig):
        self.process = subprocess.Popen(
            [sys.executable, "-c", ENGINE, str(library_path()), str(rig.socket(None))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, name):
        """`attach` or `pin`; returns what the library returns."""
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def attach(self):
        """Whether it has at once; otherwise its library has by itself."""
        result = self.call("attach")
        if result in DOOR_LATE:
            until(lambda: self.call("attach") == 0, "the engine has attached")
        else:
            assert result == 0
        return result == 0

    def cpus(self):
        """Of each thread."""
        return [os.sched_getaffinity(int(task.name)) for task in Path(f"/proc/{self.process.pid}/task").iterdir()]


@pytest.fixture
def engine(rig):
    engine = Engine(rig)
    yield engine
    engine.process.kill()
    engine.process.wait()


def serve(rig, cpus=None):
    """A new agent, which the engine has found."""
    rig.cpus = cpus or rig.cpus
    rig.serve().renew(time.monotonic() + 3600)
    until(lambda: rig.device.counts().online_processes == 1)


def test_an_engine_is_pinned_when_it_asks_and_not_before(rig, engine):
    engine.attach()
    assert set(rig.cpus) not in engine.cpus()
    assert engine.call("pin") == 0
    # Two threads of the program's, and the library's.
    assert engine.cpus() == [set(rig.cpus)] * 3


def test_an_engine_that_asks_before_it_attaches_is_pinned_then(rig, engine):
    assert engine.call("pin") == 0
    assert set(rig.cpus) not in engine.cpus()
    if not engine.attach():
        until(lambda: engine.cpus() == [set(rig.cpus)] * 3, "it is pinned")
    assert engine.cpus() == [set(rig.cpus)] * 3


@pytest.mark.parametrize("calls", [("pin", "attach"), ("attach", "pin")])
def test_an_engine_that_asks_before_there_is_an_agent_is_pinned_when_there_is_one(rig, engine, calls):
    rig.agent.close()
    assert {call: engine.call(call) < 0 for call in calls} == {"attach": True, "pin": False}
    assert set(rig.cpus) not in engine.cpus()
    serve(rig)
    until(lambda: engine.cpus() == [set(rig.cpus)] * 3, "it is pinned")


def test_the_next_agent_moves_an_engine_only_to_other_cpus(rig, engine):
    everywhere = os.sched_getaffinity(0)
    engine.attach()
    engine.call("pin")
    os.sched_setaffinity(engine.process.pid, everywhere)
    for _ in range(2):
        rig.agent.close()
        serve(rig)
    # The engine has come to the second of them, so it is done with the first.
    assert os.sched_getaffinity(engine.process.pid) == everywhere
    assert engine.call("pin") == 0
    assert engine.cpus() == [set(rig.cpus)] * 3
    rig.agent.close()
    serve(rig, (min(everywhere),))
    until(lambda: engine.cpus() == [{min(everywhere)}] * 3, "it is on the new CPU")


def test_cpus_that_the_engine_may_not_use_are_told(rig, engine):
    rig.agent.close()
    rig.cpus = (1000,)
    rig.serve()
    engine.attach()
    assert engine.call("pin") == -errno.EINVAL
    assert engine.cpus()[0] == os.sched_getaffinity(0)


def tenant_cpus(tenant, *, control=False):
    """Of its own threads, or of the library's."""
    names = thread_names(tenant.process.pid)
    return [os.sched_getaffinity(tid) for tid, name in names.items() if (name == "rowen-gate") == control]


def test_the_next_agent_moves_a_tenant_only_to_other_cpus(rig):
    everywhere = os.sched_getaffinity(0)
    rig.engine()
    tenant = rig.tenant("threading.Thread(target=spin, args=(1,)).start(); spin()")
    tenant.advances(2)
    assert tenant_cpus(tenant) == [set(rig.cpus)] * 2
    os.sched_setaffinity(tenant.process.pid, everywhere)
    rig.agent.close()
    serve(rig)
    until(lambda: rig.device.counts().tenants[0].attached == 1)
    tenant.advances(2)
    assert everywhere in tenant_cpus(tenant)
    rig.agent.close()
    serve(rig, (min(everywhere),))
    until(lambda: tenant_cpus(tenant) == [{min(everywhere)}] * 2, "it is on the new CPU")
    tenant.advances(2)
    # With a deadline reservation it is everywhere.
    assert tenant_cpus(tenant, control=True)[0] in (everywhere, everywhere - {min(everywhere)})


@pytest.fixture
def group():
    """Makes cgroups of their own, by the controller and the settings of each."""
    made = []

    def make(controller, **settings):
        parent = Path("/sys/fs/cgroup") / controller
        if not (parent / "cgroup.procs").exists() or not os.access(parent, os.W_OK):
            pytest.skip("this kernel has no such groups, or they cannot be made here")
        made.append(parent / f"rowen-pin-{os.getpid()}")
        made[-1].mkdir()
        for name, value in settings.items():
            (made[-1] / f"{controller}.{name}").write_text(value)
        return made[-1]

    yield make
    for folder in made:
        for pid in (folder / "cgroup.procs").read_text().split():
            (folder.parent / "cgroup.procs").write_text(pid)
        folder.rmdir()


def tenant_in(rig, folder):
    """Counts in two threads, from within the cgroup."""
    program = "threading.Thread(target=spin, args=(1,)).start(); spin()"

    def join():
        (folder / "cgroup.procs").write_text(str(os.getpid()))

    return rig.run([sys.executable, "-c", COUNTER + program], before=join)


def found_by_the_next_agent(rig, tenant):
    rig.agent.close()
    serve(rig)
    until(lambda: rig.device.counts().tenants[0].attached == 1)
    tenant.advances(2)


def test_a_tenant_that_could_not_be_pinned_is_when_the_next_agent_comes(rig, group):
    rig.engine()
    elsewhere = min(os.sched_getaffinity(0) - set(rig.cpus))
    folder = group("cpuset", mems="0", cpus=str(elsewhere))
    tenant = tenant_in(rig, folder)
    tenant.advances(2)
    assert tenant_cpus(tenant) == [{elsewhere}] * 2
    (folder / "cpuset.cpus").write_text(f"{elsewhere},{rig.cpus[0]}")
    found_by_the_next_agent(rig, tenant)
    assert tenant_cpus(tenant) == [set(rig.cpus)] * 2


def test_a_control_thread_that_may_not_be_pinned_does_not_have_the_others_pinned_again(rig, group):
    """In a cgroup without a real-time budget it has a deadline reservation, for every CPU."""
    everywhere = os.sched_getaffinity(0)
    rig.engine()
    tenant = tenant_in(rig, group("cpu"))
    tenant.advances(2)
    rig.cpus = (min(everywhere),)
    found_by_the_next_agent(rig, tenant)
    assert tenant_cpus(tenant) == [{min(everywhere)}] * 2
    os.sched_setaffinity(tenant.process.pid, everywhere)
    found_by_the_next_agent(rig, tenant)
    assert everywhere in tenant_cpus(tenant)
