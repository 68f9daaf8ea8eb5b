"""Neighbouring releases: an agent, engines and tenants whose structures have grown, and those whose have not."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from contextlib import contextmanager
from pathlib import Path

import pytest
from gate.borrower import BYTES, Borrower
from gate.rig import until
from gate.test_failures import agent_environment

NATIVE = Path(__file__).parents[3] / "node_agent" / "native"
GROWN = {
    "rowen_abi.h": {
        r"(_Atomic uint32_t tenants;[^\n]*\n)": r"\1    _Atomic uint64_t news_of_the_device[5000];\n",
        r"(struct rowen_record records\[ROWEN_RECORDS\];\n)": r"\1    _Atomic uint64_t news_of_the_member[5000];\n",
        r"(struct rowen_hello \{[^}]*uint64_t features;\n)": r"\1    uint64_t more[40];\n",
        r"(char reason\[ROWEN_REASON_LENGTH\];[^\n]*\n)": r"\1    uint64_t more[40];\n",
        r"(uint32_t capacity; /\* handles; 0[^\n]*\n)": r"\1    uint64_t more[40];\n",
    },
    "memory/memory_abi.h": {
        r"(_Atomic uint32_t used;\n)": r"\1    _Atomic uint64_t news_of_the_arena[500];\n",
    },
}

AGENT = """
import json, select, sys, time
from pathlib import Path
import rowen.node_agent.devices.library as library
# Before anything else binds the name.
library.agent_library = lambda: library.load_library(Path(sys.argv[4]))
from gate.rig import Agent, acknowledged
agent = Agent(Path(sys.argv[1]), [int(sys.argv[2])], 5, json.loads(sys.argv[3]), memory=json.loads(sys.argv[5]))
print("serving", flush=True)
while not select.select([sys.stdin], [], [], 0.05)[0]:
    agent.device.renew(time.monotonic() + 60)
    counts = agent.device.counts()
    held = sum(member.held for member in agent.device.loans.status().members) if agent.device.loans else 0
    gate = int(counts.gate_open), int(acknowledged(agent.device))
    print(counts.online_processes, counts.tenant_processes, counts.backstops, held, *gate, flush=True)
agent.close()
"""


@pytest.fixture(scope="module")
def grown_library(tmp_path_factory):
    """The library of a release in which every structure has grown at its end."""
    folder = tmp_path_factory.mktemp("grown")
    sources = folder / "native"
    shutil.copytree(NATIVE, sources)
    for name, changes in GROWN.items():
        header = sources / name
        text = header.read_text()
        for pattern, replacement in changes.items():
            text, made = re.subn(pattern, replacement, text)
            assert made == 1, pattern
        header.write_text(text)
    parts = ("shared", "tenant", "cpu", "online", "agent", "memory")
    files = sorted(str(path) for part in parts for path in (sources / part).rglob("*.c"))
    compiler = sysconfig.get_config_var("CC").split()[0]
    made = folder / "librowen_grown.so"
    options = ["-std=c11", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{sources}"]
    subprocess.run([compiler, *options, *files, "-o", str(made), "-pthread", "-ldl"], check=True, timeout=120)
    return made


@contextmanager
def grown_agent(rig, library):
    """An agent of the other release, in place of the rig's. Gives a function that reads its state."""
    rig.agent.close()
    command = [sys.executable, "-c", AGENT, str(rig.folder), str(rig.cpus[0])]
    command += [json.dumps(rig.pod_arguments()), str(library), json.dumps(rig.memory)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=agent_environment()
    ) as agent:
        try:
            assert agent.stdout.readline() == "serving\n"
            yield lambda: tuple(map(int, agent.stdout.readline().split()))
        finally:
            agent.kill()


def test_a_grown_engine_and_tenant_with_this_agent(rig, grown_library):
    engine = rig.engine(grown_library)
    tenant = rig.tenant("spin()", LD_PRELOAD=str(grown_library))
    for _ in range(3):
        tenant.advances()
        engine.call("busy")
        rig.acknowledged()
        tenant.stands_still()
        engine.call("record", 1, 2, 3, 4, 1)
        engine.call("idle")
    until(lambda: len(rig.device.requests(0)) == 3)
    assert rig.device.counts().backstops == 0
    assert rig.device.closings(0)[-2].tenants == 1


def test_an_upgrade_and_a_way_back_with_work_running(rig, grown_library):
    engine = rig.engine()
    tenant = rig.tenant("spin()")
    other = rig.tenant("spin()", LD_PRELOAD=str(grown_library))
    for program in (tenant, other):
        program.advances()
    with grown_agent(rig, grown_library) as state:
        until(lambda: state()[:3] == (1, 2, 0), "all have found the new agent")
        until(lambda: state()[4] == 1, "the gate is open")
        for program in (tenant, other):
            program.advances()
        engine.call("busy")
        until(lambda: state()[5] == 1, "the close is acknowledged")
        for program in (tenant, other):
            program.stands_still()
        engine.call("idle")
        for program in (tenant, other):
            program.advances()
        engine.call("busy")
    rig.serve().renew(rig.device.counts().now + 3600)
    until(lambda: rig.device.counts().in_flight == 1)
    for program in (tenant, other):
        # It may not have come to this agent yet.
        program.stops()
        program.stands_still()
    engine.call("idle")
    for program in (tenant, other):
        program.advances()
    assert engine.process.poll() is tenant.process.poll() is other.process.poll() is None
    assert rig.device.counts().backstops == 0


def test_memory_is_kept_through_an_upgrade_and_a_way_back(make_rig, grown_library):
    rig = make_rig(memory=(12, BYTES))
    engine, tenant, other = Borrower(rig, None), Borrower(rig, 0), Borrower(rig, 1, preload=grown_library)
    holds = {engine: 3, tenant: 4, other: 5}
    for program, count in holds.items():
        assert program.ready().ask("open") == 12
        for number, known in rig.device.loans.borrowers.items():
            if known.slot is not None:
                rig.device.loans.share(number, 0, 12)
        program.ask("want", count)
        assert program.ask("wait", count) == 1
        assert program.ask("map", 0, count) == count
        program.ask("fill", 0, count, 7)
    with grown_agent(rig, grown_library) as state:
        until(lambda: state()[3] == 12, "all have handed over to the new agent")
        assert [program.ask("sum", 0, count) for program, count in holds.items()] == [21, 28, 35]
        engine.ask("want", 5)
        engine.ask("busy")
        assert engine.ask("wait", 5) == 1
        assert engine.ask("map", 3, 2) == 2
        engine.ask("fill", 3, 2, 7)
        engine.ask("idle")
        assert tenant.ask("lost") + other.ask("lost") == 2
    rig.serve().renew(rig.device.counts().now + 3600)
    until(lambda: sum(member.held for member in rig.device.loans.status().members) == 12, "and to the one after it")
    pids = {each.process.pid for each in holds}
    until(lambda: {known.pid for known in rig.device.loans.borrowers.values()} == pids, "which knows whose it is")
    assert engine.ask("sum", 0, 5) == 35
    assert rig.device.loans.status().free == 0
    assert rig.device.counts().backstops == 0
