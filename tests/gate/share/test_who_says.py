"""Engines of several processes, those that end, and one that writes what it likes."""

import os
import socket
import struct
import time

import pytest
from gate.rig import until
from gate.share.shared import ANY, busy, limit, opens_at, stays_closed

from rowen.node_agent.attach.message import MAGIC
from rowen.node_agent.devices.library import ABI_VERSION

GATE, CPUS, DEVICE_SHARE = 64, 128, 264
IN_FLIGHT, MEMBER_SHARE = 128, 41272
"""Where fields are in the files of a device and of a member."""


@pytest.fixture
def rig(make_rig):
    return make_rig(slots=1)


def settles(rig):
    """Waits until the agent has come round, whatever has woken it."""
    end = time.monotonic() + 0.3
    until(lambda: rig.device.beat() > end, "the agent has come round")


def test_one_process_counts_requests_and_another_says_the_share(rig):
    front, tenant = busy(rig)
    core = rig.engine()
    core.call("share", 3)
    opens_at(rig, 3)
    tenant.advances()
    front.call("busy")
    rig.acknowledged()
    stays_closed(rig)
    core.call("share", 3)
    opens_at(rig, 3)
    assert limit(rig.pods[0]) == (3000, 10000)


def test_of_two_that_say_a_share_the_less_counts(rig):
    engine, tenant = busy(rig)
    other = rig.engine()
    engine.call("share", 5)
    opens_at(rig, 5)
    other.call("share", 3)
    opens_at(rig, 3)
    number = rig.device.closings(0)[-1].number
    # Neither's word, said again, moves what both can do without.
    for _ in range(20):
        engine.call("share", 5)
        other.call("share", 3)
    engine.call("share", 6)
    settles(rig)
    assert (rig.device.closings(0)[-1].number, rig.device.counts().share) == (number, 0.3)
    tenant.advances()
    other.call("share", 7)
    opens_at(rig, 6)
    other.call("share", 0)
    rig.acknowledged()
    engine.call("share", 6)
    stays_closed(rig)


def test_one_that_has_said_nothing_of_the_new_request_has_its_share(rig):
    engine, _ = busy(rig)
    other = rig.engine()
    engine.call("share", 5)
    other.call("share", 5)
    opens_at(rig, 5)
    engine.call("busy")
    rig.acknowledged()
    engine.call("share", 5)
    stays_closed(rig)
    other.call("share", 4)
    opens_at(rig, 4)


def test_the_word_of_a_process_that_has_ended_counts_no_more(rig):
    engine, tenant = busy(rig)
    other = rig.engine()
    engine.call("share", 5)
    other.call("share", 3)
    opens_at(rig, 3)
    other.kill()
    opens_at(rig, 5)
    tenant.advances()
    # Nobody is left who says one.
    front = rig.engine()
    front.call("busy")
    engine.call("share", 5)
    opens_at(rig, 5)
    engine.kill()
    rig.acknowledged()
    tenant.stands_still()
    assert limit(rig.pods[0]) == ANY
    stays_closed(rig)
    front.call("idle")
    tenant.advances()


def test_the_only_engine_is_killed(rig):
    engine, tenant = busy(rig)
    engine.call("share", 3)
    opens_at(rig, 3)
    engine.kill()
    rig.acknowledged()
    tenant.stands_still()
    assert limit(rig.pods[0]) == ANY
    assert rig.device.counts().online_processes == 0
    engine = rig.engine()
    tenant.advances()


def test_an_engine_that_cannot_tell_its_work_any_more(rig):
    engine, tenant = busy(rig)
    engine.call("share", 3)
    opens_at(rig, 3)
    engine.call("fail")
    rig.acknowledged()
    engine.call("share", 3)
    stays_closed(rig)
    tenant.stands_still()
    assert limit(rig.pods[0]) == ANY


class Liar:
    """This process as an engine, whose hands are its library."""

    def __init__(self, rig):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(60)
        connection.connect(str(rig.socket(None)))
        connection.send(struct.pack("<QIIQ", MAGIC, ABI_VERSION, 24, 0))
        _, (self.device, self.member), _, _ = socket.recv_fds(connection, 4096, 2)
        self.connection = connection

    def write(self, file, at, value, length=4):
        os.pwrite(file, value.to_bytes(length, "little"), at)

    def says(self, share):
        """In the member's own form: 1 + tenths."""
        busy = int.from_bytes(os.pread(self.device, 8, GATE), "little") >> 32
        self.write(self.member, MEMBER_SHARE, busy << 32 | share, 8)

    def close(self):
        os.close(self.device)
        os.close(self.member)
        self.connection.close()


@pytest.fixture
def liar(rig):
    made = Liar(rig)
    made.write(made.member, IN_FLIGHT, 1)
    yield made
    made.close()


def test_an_engine_that_lies_has_no_more_than_one_that_does_not(rig, liar):
    tenant = rig.tenant("spin()")
    liar.says(2**32 - 1)
    opens_at(rig, 9)
    assert limit(rig.pods[0]) == (9000, 10000)
    before = rig.device.counts()
    liar.write(liar.device, DEVICE_SHARE, 2**32 - 1)
    tenant.advances()
    until(lambda: rig.device.counts().shared_seconds > before.shared_seconds + 0.5)
    counts = rig.device.counts()
    assert counts.share == 0.9
    assert counts.idle_seconds - before.idle_seconds < counts.shared_seconds - before.shared_seconds
    liar.says(1)
    rig.acknowledged()
    tenant.stands_still()
    assert limit(rig.pods[0]) == ANY


def test_an_engine_that_says_the_device_is_large_has_no_more_of_it(rig, liar):
    liar.write(liar.device, CPUS, 2**64 - 1, 8)
    liar.says(4)
    opens_at(rig, 3)
    assert limit(rig.pods[0]) == (3000, 10000)
    liar.says(1)
    rig.acknowledged()
    liar.write(liar.device, CPUS, 0, 8)
    liar.says(4)
    opens_at(rig, 3)
    assert limit(rig.pods[0]) == (3000, 10000)


def test_a_share_of_another_count_of_requests_is_none(rig, liar):
    tenant = rig.tenant("spin()")
    for count in (1, 7, 2**32 - 1):
        liar.write(liar.member, MEMBER_SHARE, count << 32 | 4, 8)
        stays_closed(rig)
    tenant.stands_still()


def test_a_gate_that_others_have_opened_is_closed(rig, liar):
    """Nobody is limited for it."""
    tenant = rig.tenant("spin()")
    liar.says(4)
    opens_at(rig, 3)
    tenant.advances()
    liar.says(1)
    rig.acknowledged()
    number = rig.device.closings(0)[-1].number
    gate = int.from_bytes(os.pread(liar.device, 8, GATE), "little")
    liar.write(liar.device, GATE, gate + 1, 8)
    until(lambda: rig.device.closings(0)[-1].number > number, "it is closed again")
    rig.acknowledged()
    assert limit(rig.pods[0]) == ANY
    assert rig.device.closings(0)[-1].share is None


def test_an_agent_that_ends_closes_the_gate_before_it_gives_limits_back(rig, liar):
    """The engine does nothing for it."""
    liar.says(4)
    opens_at(rig, 3)
    rig.agent.close()
    gate = int.from_bytes(os.pread(liar.device, 8, GATE), "little")
    assert gate % 2 == 1
    assert limit(rig.pods[0]) == ANY
    rig.serve()
