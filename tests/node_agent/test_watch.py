"""What is held against a pod of the kernel's stops that it had."""

from dataclasses import replace

import pytest

from rowen.node_agent.attach.cgroup import PodCgroup
from rowen.node_agent.attach.offence import Evict, Reason, Tell
from rowen.node_agent.attach.watch import Watch
from rowen.node_agent.devices.counts import Offence, TenantCounts

NOTHING_YET = TenantCounts(
    attached=1,
    open_seconds=100.0,
    preemptions=0,
    backstops=0,
    reports=0,
    completed=0,
    total=0,
    tokens=0,
    granted_seconds=0.0,
)
SLOTS = (("a", 0), ("b", 0))


@pytest.fixture
def pod(tmp_path):
    """Without processes that have not attached."""
    return PodCgroup("uid", tmp_path, None)


@pytest.fixture
def look(pod):
    """What one look at the pod leads to."""
    watch = Watch()
    counts = dict.fromkeys(SLOTS, NOTHING_YET)

    def look(now, slot=SLOTS[0], **more):
        changes = {name: getattr(counts[slot], name) + value for name, value in more.items() if name != "offence"}
        counts[slot] = replace(counts[slot], **changes, offence=more.get("offence", counts[slot].offence))
        return [notice.decision for notice in watch.look(slot, pod, counts[slot], (), now)]

    # A long time ago, so that nobody has just arrived.
    assert [look(0.0, slot) for slot in SLOTS] == [[], []]
    return look


def test_a_pod_that_the_machine_kept_from_answering_has_done_nothing(look):
    for now in range(100, 200, 10):
        for slot in SLOTS:
            assert look(float(now), slot, backstops=1, offence=Offence.BLAMELESS) == []


def test_a_pod_in_lockstep_is_blamed_once_for_one_stop(look):
    (told,) = look(100.0, SLOTS[0], backstops=1, offences=1, offence=Offence.RAN)
    assert isinstance(told, Tell)
    for now in range(101, 120):
        assert look(float(now), SLOTS[1], backstops=1, offence=Offence.BLAMELESS) == []
    (evicted,) = look(120.0, SLOTS[1], backstops=1, offences=1, offence=Offence.UNACKNOWLEDGED)
    assert (type(evicted), evicted.reason) == (Evict, Reason.UNACKNOWLEDGED)


def test_an_offence_is_not_hidden_by_a_stop_that_is_none(look):
    """Both came between two looks."""
    (told,) = look(100.0, backstops=2, offences=1, offence=Offence.BLAMELESS)
    assert (type(told), told.reason) == (Tell, Reason.OVERDRAWN)
