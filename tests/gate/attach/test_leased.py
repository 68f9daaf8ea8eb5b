"""What an engine knows of its devices' leases, by which what rides in it stands still."""

import time

from gate.rig import Engine, until


def runs(engine):
    return engine.call("leased") == 1


def test_an_engine_knows_whether_its_device_has_a_lease(rig):
    engine = rig.engine()
    assert runs(engine)
    engine.call("busy")
    assert runs(engine), "the gate's state is another matter"
    rig.device.renew(time.monotonic())
    assert not runs(engine)
    rig.device.renew(time.monotonic() + 3600)
    assert runs(engine)


def test_it_runs_out_without_an_agent_and_is_not_back_before_the_next_one_has_it(rig):
    engine = rig.engine()
    rig.device.renew(time.monotonic() + 0.5)
    rig.agent.close()
    until(lambda: not runs(engine), "the lease has run out")
    rig.serve()
    until(lambda: rig.device.counts().online_processes == 1, "the engine has come over")
    assert not runs(engine)
    rig.device.renew(time.monotonic() + 3600)
    assert runs(engine)


def test_an_engine_that_no_agent_has_let_in_has_none(rig):
    rig.agent.close()
    engine = Engine(rig.socket(None))
    rig.on_close(engine.kill)
    assert not runs(engine)
    rig.serve().renew(time.monotonic() + 3600)
    until(lambda: runs(engine), "it is in")


def test_of_several_devices_each_has_to_have_one(make_rig):
    rigs = [make_rig(), make_rig()]
    engine = Engine(":".join(str(rig.socket(None)) for rig in rigs))
    rigs[0].on_close(engine.kill)
    until(lambda: runs(engine), "it is on both")
    for rig in rigs:
        rig.device.renew(time.monotonic())
        assert not runs(engine)
        rig.device.renew(time.monotonic() + 3600)
        assert runs(engine)
