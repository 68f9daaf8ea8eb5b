"""A share with a pool of memory: the engine does not wait for its next request to get some."""

import pytest
from gate.borrower import BYTES, Borrower
from gate.rig import until
from gate.share.shared import ANY, limit, opens_at

HANDLES = 12


@pytest.fixture
def rig(make_rig):
    return make_rig(slots=1, memory=(HANDLES, BYTES))


def member(rig, borrower):
    return next(number for number, known in rig.device.loans.borrowers.items() if known.pid == borrower.process.pid)


def borrowers(rig):
    engine, tenant = Borrower(rig, None).ready(), Borrower(rig, 0).ready()
    assert (engine.ask("open"), tenant.ask("open")) == (HANDLES, HANDLES)
    rig.device.loans.share(member(rig, tenant), 0, HANDLES)
    tenant.ask("want", HANDLES)
    assert tenant.ask("wait", HANDLES) == 1
    assert tenant.ask("map", 0, HANDLES) == HANDLES
    tenant.ask("fill", 0, HANDLES, 1)
    return engine, tenant


def test_what_the_engine_wants_is_taken_from_those_who_run_beside_it(rig):
    engine, tenant = borrowers(rig)
    engine.ask("busy")
    rig.acknowledged()
    engine.ask("share", 5)
    opens_at(rig, 5)
    number = rig.device.closings(0)[-1].number
    for had, wanted in ((0, 4), (4, 7)):
        engine.ask("want", wanted)
        assert engine.ask("wait", wanted) == 1
        assert rig.device.closings(0)[-1].number > number
        assert engine.ask("map", had, wanted - had) == wanted - had
        # The share was said for the requests that are in flight still.
        opens_at(rig, 5)
        number = rig.device.closings(0)[-1].number
        until(lambda: rig.device.loans.status().deficit == 0)
        assert tenant.ask("lost") == wanted - had
    engine.ask("fill", 0, 7, 9)
    tenant.ask("fill", 0, HANDLES, 7)
    assert engine.ask("sum", 0, 7) == 63
    assert rig.device.counts().backstops == 0
    engine.ask("share", 0)
    rig.acknowledged()
    assert limit(rig.pods[0]) == ANY


def test_no_share_is_given_while_the_engine_waits_for_memory(rig):
    engine, tenant = borrowers(rig)
    engine.ask("want", 4)
    until(lambda: rig.device.loans.status().deficit == 4, "there is none for it while the device is idle")
    engine.ask("busy")
    engine.ask("share", 5)
    opens_at(rig, 5)
    assert rig.device.loans.status().deficit == 0
    assert engine.ask("map", 0, 4) == 4
    assert tenant.ask("lost") == 4
