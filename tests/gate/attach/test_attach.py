"""How processes come in, and what they can do with what they get."""

import os
import random
import resource
import socket
import struct
import subprocess
import sys
import time

from descriptors import open_descriptors
from gate.rig import COUNTER, Engine, acknowledged, until

from rowen.node_agent.attach.message import MAGIC, welcome
from rowen.node_agent.devices.library import ABI_VERSION


def test_an_engine_that_comes_before_its_agent(rig):
    rig.agent.close()
    engine = Engine(rig.socket(None))
    try:
        assert engine.attached < 0
        engine.call("busy")
        rig.serve().renew(time.monotonic() + 3600)
        until(lambda: rig.device.counts().in_flight == 1)
        engine.call("idle")
        rig.opened()
    finally:
        engine.kill()


def test_an_engine_that_cannot_map_its_files_counts_as_busy_until_it_can(rig):
    rig.agent.close()
    engine = Engine(rig.socket(None))
    limits = resource.prlimit(engine.process.pid, resource.RLIMIT_AS)
    try:
        resource.prlimit(engine.process.pid, resource.RLIMIT_AS, (4096, limits[1]))
        rig.serve().renew(time.monotonic() + 3600)
        until(lambda: rig.device.counts().in_flight == 1, "it could not, and the agent knows")
        # For longer than it takes until it is tried again.
        time.sleep(0.6)
        assert rig.device.counts().in_flight == 1
        resource.prlimit(engine.process.pid, resource.RLIMIT_AS, limits)
        until(lambda: rig.device.counts().in_flight == 0, "it can")
        engine.call("busy")
        until(lambda: rig.device.counts().in_flight == 1)
        engine.call("idle")
        rig.opened()
    finally:
        engine.kill()


def attach_as_engine(rig):
    """This process, whose hands are its library: its member file. It says nothing in there by itself."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(60)
        connection.connect(str(rig.socket(None)))
        connection.send(struct.pack("<QIIQ", MAGIC, ABI_VERSION, 24, 0))
        _, (device, member), _, _ = socket.recv_fds(connection, 4096, 2)
    os.close(device)
    return os.fdopen(member, "r+b", buffering=0)


def say_in_flight(member, requests):
    os.pwrite(member.fileno(), requests.to_bytes(4, "little"), 128)


def cooled_down(rig):
    """Waits for longer than any cooldown."""
    end = time.monotonic() + 1.1
    until(lambda: rig.device.beat() > end, "the agent has come round")


def test_an_engine_counts_as_busy_until_it_says_something(rig):
    with attach_as_engine(rig) as member:
        cooled_down(rig)
        assert not rig.device.counts().gate_open
        assert rig.device.counts().in_flight == 1
        say_in_flight(member, 0)
        rig.opened()


def test_an_engine_that_has_gone_before_it_said_anything_keeps_nobody_waiting(rig):
    code = """
import os, socket, struct, sys, time
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(sys.argv[1])
connection.send(struct.pack("<QIIQ", int(sys.argv[2]), int(sys.argv[3]), 24, 0))
connection.recv(4096)
os.closerange(3, 64)
time.sleep(3600)
"""
    command = [sys.executable, "-c", code, str(rig.socket(None)), str(MAGIC), str(ABI_VERSION)]
    with subprocess.Popen(command) as silent:
        try:
            until(lambda: rig.device.counts().online_processes == 1)
            rig.engine()
            cooled_down(rig)
            assert not rig.device.counts().gate_open
        finally:
            silent.kill()
    rig.opened()


def test_an_engine_that_attaches_again_counts_as_busy_before_it_says_so(rig):
    with attach_as_engine(rig) as member:
        say_in_flight(member, 0)
        rig.opened()
        say_in_flight(member, 1)
        until(lambda: acknowledged(rig.device), "its request closes the gate")
        before = rig.device.closings(0)[-1].number
        with attach_as_engine(rig) as again:
            cooled_down(rig)
            assert acknowledged(rig.device)
            assert rig.device.closings(0)[-1].number == before
            say_in_flight(again, 0)
            rig.opened()


def test_a_tenant_that_comes_before_its_agent_waits(rig):
    rig.agent.close()
    tenant = rig.tenant("spin()")
    tenant.stands_still()
    rig.serve().renew(time.monotonic() + 3600)
    rig.engine()
    tenant.advances()


def answered(rig, answer):
    """A tenant that an agent answers so, and what it says at its end."""
    rig.agent.close()
    path = rig.socket(0)
    path.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        tenant = rig.tenant("spin()")
        connection, _ = listener.accept()
        connection.recv(4096)
        connection.send(answer)
        _, errors = tenant.process.communicate(timeout=20)
        connection.close()
    assert tenant.process.returncode == 1
    return tenant, errors


def test_an_agent_of_another_abi_is_refused_with_words(rig):
    answer = bytearray(welcome())
    answer[8:12] = (999).to_bytes(4, "little")
    _, errors = answered(rig, answer)
    assert "another version of Rowen" in errors
    rig.serve()


def test_what_the_agent_says_of_a_refusal_is_passed_on(rig):
    tenant, errors = answered(rig, welcome(1, "the slot belongs to another pod"))
    assert "the slot belongs to another pod" in errors
    assert tenant.counts() == [0]
    rig.serve()


def test_a_tenant_cannot_write_the_gate_nor_cut_its_file_short(rig):
    engine = rig.engine()
    tenant = rig.tenant(
        """
        import ctypes, errno, re
        libc = ctypes.CDLL(None, use_errno=True)
        maps = open("/proc/self/maps").read()
        found = re.findall(r"^[0-9a-f-]+ (\\S+) .*/memfd:(rowen-[a-z]+)", maps, re.M)
        modes = {name: mode for mode, name in found}
        assert modes == {"rowen-device": "r--s", "rowen-member": "rw-s"}, modes
        start, end = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .*rowen-device", maps, re.M).groups()
        size = int(end, 16) - int(start, 16)
        assert libc.mprotect(ctypes.c_void_p(int(start, 16)), size, 3) == -1
        name = re.search(r"^([0-9a-f]+-[0-9a-f]+) .*rowen-member", maps, re.M)[1]
        with open(f"/proc/self/map_files/{name}", "r+b") as member:
            for size in (0, 1 << 20):
                try:
                    os.ftruncate(member.fileno(), size)
                except PermissionError:
                    continue
                raise SystemExit("the file could be cut")
        spin()
        """
    )
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    tenant.stands_still()


def test_a_tenant_that_closes_all_descriptors_stays_behind_the_gate(rig):
    engine = rig.engine()
    tenant = rig.tenant("os.closerange(3, 4096); _counts[:8] = bytes(8); spin()")
    tenant.advances()
    until(lambda: rig.device.counts().tenants[0].attached == 1)
    for _ in range(3):
        engine.call("busy")
        rig.acknowledged()
        # Until it has attached anew it is not awaited.
        tenant.stops()
        tenant.stands_still()
        engine.call("idle")
        tenant.advances()
    # It has attached anew by now, and is awaited as ever.
    until(lambda: acknowledges(rig, engine))
    assert rig.device.counts().backstops == 0


def acknowledges(rig, engine, processes=1):
    engine.call("busy")
    rig.acknowledged()
    stopped = rig.device.closings(0)[-1].tenants
    engine.call("idle")
    rig.opened()
    return stopped == processes


def test_a_descriptor_that_the_application_opens_in_its_place_is_left_alone(rig):
    rig.engine()
    tenant = rig.tenant(
        """
        os.closerange(3, 4096)
        pipes = [os.pipe() for _ in range(400)]
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            count()
        for reading, writing in pipes:
            os.write(writing, b"x")
            assert os.read(reading, 1) == b"x"
        spin(1)
        """
    )
    tenant.advances(2)


def test_a_program_executed_in_the_same_process_comes_in_again(rig):
    engine = rig.engine()
    code = f"os.execv({sys.executable!r}, [{sys.executable!r}, '-c', os.environ['CODE']])"
    tenant = rig.tenant(code, CODE=COUNTER + "spin()")
    tenant.advances()
    until(lambda: rig.device.counts().tenants[0].attached == 1)
    until(lambda: acknowledges(rig, engine))
    assert rig.device.counts().backstops == 0


def test_a_killed_process_leaves_its_slot(rig):
    rig.engine()
    tenant = rig.tenant("os.fork(); os.fork(); spin()")
    until(lambda: rig.device.counts().tenants[0].attached == 4)
    assert not rig.device.reset(0)
    tenant.kill()
    until(lambda: rig.device.counts().tenants[0].attached == 0)
    assert rig.device.reset(0)


def test_the_next_agent_finds_engine_and_tenant_and_neither_starts_anew(rig):
    engine = rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    before = rig.device.counts()
    rig.agent.close()
    rig.serve().renew(time.monotonic() + 3600)
    # The request that is still in flight holds the new gate, too.
    until(lambda: rig.device.counts().in_flight == 1)
    tenant.stands_still()
    assert not rig.device.counts().gate_open
    engine.call("idle")
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    tenant.stands_still()
    after = rig.device.counts()
    assert after.preemptions == before.preemptions + 1
    assert after.tenants[0].preemptions == before.tenants[0].preemptions + 1
    assert after.backstops == 0


def test_an_agent_that_comes_while_a_tenant_runs_stops_it_for_its_engine(rig):
    """Every process finds the new agent by itself; offline work never runs behind the back of an engine."""
    engine = rig.engine()
    tenant = rig.tenant("spin()")
    for _ in range(5):
        tenant.advances()
        rig.agent.close()
        rig.serve().renew(time.monotonic() + 3600)
        engine.call("busy")
        until(lambda: rig.device.counts().in_flight == 1)
        rig.acknowledged()
        # It may not have come to this agent yet.
        tenant.stops()
        tenant.stands_still()
        engine.call("idle")


def test_strangers_at_the_socket_keep_nobody_out(rig):
    rig.engine()
    generator = random.Random(7)
    before = len(open_descriptors())
    silent = []
    for number in range(300):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(str(rig.socket(0)))
        choice = number % 5
        data = generator.randbytes(generator.randrange(1, 200))
        if choice == 0:
            silent.append(connection)
            continue
        if choice == 1:
            data = MAGIC.to_bytes(8, "little") + data
        if choice == 2:
            data = MAGIC.to_bytes(8, "little") + (2).to_bytes(4, "little") + data
        if choice == 3:
            socket.send_fds(connection, [data], [0, 1, 2])
        else:
            connection.send(data)
        connection.close()
    tenant = rig.tenant("spin()")
    tenant.advances()
    for connection in silent:
        connection.close()
    until(lambda: rig.device.counts().tenants[0].attached == 1)
    until(lambda: len(open_descriptors()) <= before + 8, "nothing is left behind")


HOSTILE = """
import ctypes, random, re
generator = random.Random(int(os.environ["SEED"]))
start, end = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .*rowen-member", open("/proc/self/maps").read(), re.M).groups()
page = (ctypes.c_uint64 * ((int(end, 16) - int(start, 16)) // 8)).from_address(int(start, 16))
values = [0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
while True:
    index = generator.randrange(len(page)) if generator.random() < 0.5 else generator.randrange(64)
    page[index] = generator.choice(values) if generator.random() < 0.5 else generator.getrandbits(64)
    count()
"""


def test_a_tenant_that_writes_anything_into_its_file_harms_itself_alone(make_rig):
    rig = make_rig(backstop=0.5)
    engine = rig.engine()
    hostile = [rig.tenant(HOSTILE, slot=0, SEED=str(seed)) for seed in range(3)]
    honest = rig.tenant("spin()", slot=1)
    for _ in range(20):
        for tenant in (*hostile, honest):
            tenant.advances()
        engine.call("busy")
        rig.acknowledged()
        honest.stands_still()
        engine.call("idle")
        rig.opened()
    counts = rig.device.counts()
    assert counts.tenants[1].backstops == 0
    assert counts.tenants[1].attached == 1


def test_a_process_that_was_let_in_and_is_gone_at_once(rig):
    rig.engine()
    for _ in range(20):
        process = rig.tenant("os._exit(0)").process
        assert process.wait(20) == 0
    until(lambda: rig.device.counts().tenants[0].attached == 0)


def test_many_processes_at_once(rig):
    engine = rig.engine()
    tenant = rig.run([sys.executable, "-c", COUNTER + "[os.fork() for _ in range(6)]\nspin()"])
    until(lambda: acknowledges(rig, engine, 64), "all of them acknowledge")
    engine.call("busy")
    rig.acknowledged()
    tenant.stands_still()
    assert rig.device.counts().backstops == 0


def test_a_shell_s_children(rig):
    rig.engine()
    done = rig.run(["/bin/sh", "-c", "for i in 1 2 3 4 5; do /bin/echo $i | /bin/cat; done"])
    output, errors = done.process.communicate(timeout=30)
    assert output.split() == ["1", "2", "3", "4", "5"], errors
    assert isinstance(done.process, subprocess.Popen)
