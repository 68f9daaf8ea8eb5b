"""The wake rule: an online request meets at most one preemption."""

import time

from gate.rig import until

MILLISECOND = 1_000_000


def closes(before, after):
    return ((after + 1) >> 1) - ((before + 1) >> 1)


def test_the_gate_stays_closed_between_two_requests_in_flight(rig):
    engine, other = rig.engine(), rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    before = engine.call("gate")
    assert engine.call("busy") == 1
    assert other.call("busy") == 0
    engine.call("idle")
    rig.acknowledged()
    tenant.stands_still()
    assert closes(before, engine.call("gate")) == 1
    other.call("idle")
    tenant.advances()


def test_the_cooldown_is_twice_the_largest_decode_gap(rig):
    engine = rig.engine()
    engine.call("busy")
    engine.call("step", 1 * MILLISECOND, 11 * MILLISECOND)
    engine.call("step", 14 * MILLISECOND, 20 * MILLISECOND)
    # The bucket of a second long gone does not count.
    until(lambda: rig.device.counts().cooldown == 0.002)
    now = time.monotonic_ns()
    engine.call("step", now, now + MILLISECOND)
    engine.call("step", now + 41 * MILLISECOND, now + 42 * MILLISECOND)
    until(lambda: rig.device.counts().cooldown >= 0.08)
    counts = rig.device.counts()
    assert counts.cooldown == 2 * counts.decode_gap


def test_a_pause_between_requests_is_no_decode_gap(rig):
    engine = rig.engine()
    engine.call("busy")
    begin = time.monotonic_ns()
    engine.call("step", begin, begin + 1)
    engine.call("idle")
    engine.call("busy")
    engine.call("step", begin + 500 * MILLISECOND, begin + 501 * MILLISECOND)
    assert rig.device.counts().decode_gap == 0.0


def test_at_most_one_preemption_per_request(rig):
    """Requests come in every phase of the cooldown; each counts the closes from before its start to its end."""
    engine, other = rig.engine(), rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    seen = []
    for number in range(60):
        server = (engine, other)[number % 2]
        before = server.call("gate")
        server.call("busy")
        if number % 3 == 0:
            rig.acknowledged()
        if number % 5 == 0:
            tenant.stands_still()
        seen.append(closes(before, server.call("gate")))
        server.call("record", 5 * MILLISECOND, MILLISECOND, 16, seen[-1], 1)
        server.call("idle")
        if number % 4 == 0:
            rig.opened()
    assert max(seen) == 1
    requests = rig.device.requests(0)
    assert [request.preemptions for request in requests] == seen
    assert rig.device.counts().preemptions >= 15
