"""A tenant cannot keep the parking signal away, and keeps its own signals."""

import signal

from gate.rig import until


def test_blocked_signals(rig):
    engine = rig.engine()
    tenant = rig.tenant(
        """
        import signal
        signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
        threading.Thread(target=spin, args=(0,), daemon=True).start()
        spin(1)
        """
    )
    tenant.advances(2)
    engine.call("busy")
    rig.acknowledged()
    tenant.stands_still(2)


def test_replaced_handler(rig):
    engine = rig.engine()
    tenant = rig.tenant("import signal; signal.signal(signal.SIGURG, signal.SIG_IGN); spin()")
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    tenant.stands_still()


def test_waiting_for_signals_does_not_take_the_parking_signal(rig):
    engine = rig.engine()
    tenant = rig.tenant(
        """
        import signal
        def wait():
            while True:
                signal.sigtimedwait(range(1, 65), 0.0001)
                count(1)
        threading.Thread(target=wait, daemon=True).start()
        spin(0)
        """
    )
    tenant.advances(2)
    engine.call("busy")
    rig.acknowledged()
    tenant.stands_still(2)
    engine.call("idle")
    tenant.advances(2)


def test_a_stopped_tenant_can_be_terminated(rig):
    engine = rig.engine()
    tenant = rig.tenant("spin()")
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    tenant.process.terminate()
    assert tenant.process.wait(20) == -signal.SIGTERM
    until(lambda: rig.device.counts().tenant_processes == 0)


def test_interrupted_calls_go_on(rig):
    engine = rig.engine()
    tenant = rig.tenant(
        """
        reader, writer = os.pipe()
        def read():
            while os.read(reader, 1):
                count(0)
        threading.Thread(target=read, daemon=True).start()
        while True:
            os.write(writer, b"x")
            time.sleep(0.0001)
            count(1)
        """
    )
    tenant.advances(2)
    for _ in range(20):
        engine.call("busy")
        rig.acknowledged()
        engine.call("idle")
        rig.opened()
        tenant.advances(2)
    assert tenant.process.poll() is None
