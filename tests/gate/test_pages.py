"""Who may attach to which page, and what a tenant can do with them."""

import struct

from gate.rig import Engine, until

VERSION_OFFSET = 8


def spoil_version(path):
    with path.open("r+b") as page:
        page.seek(VERSION_OFFSET)
        page.write(struct.pack("<I", 999))


def test_an_engine_refuses_another_version_and_goes_on(rig):
    spoil_version(rig.page)
    engine = Engine(rig.page)
    try:
        assert engine.attached < 0
        assert engine.call("busy") == 0
        engine.call("idle")
    finally:
        engine.kill()


def test_a_tenant_of_another_version_does_not_run(rig):
    rig.engine()
    spoil_version(rig.page)
    tenant = rig.tenant("spin()")
    _, errors = tenant.process.communicate(timeout=20)
    assert tenant.process.returncode == 1
    assert "another version" in errors
    assert tenant.counts() == [0]


def test_a_tenant_without_its_page_does_not_run(rig):
    tenant = rig.tenant("spin()", ROWEN_TENANT_PAGE="/nowhere/tenant.page")
    _, errors = tenant.process.communicate(timeout=20)
    assert tenant.process.returncode == 1
    assert "/nowhere/tenant.page" in errors


def test_pages_of_another_version_are_made_anew(rig):
    inode = rig.page.stat().st_ino
    rig.device.close()
    spoil_version(rig.page)
    rig.serve()
    assert rig.page.stat().st_ino != inode
    assert rig.engine().attached == 0


def test_a_tenant_needs_no_right_to_write_the_device_page(rig):
    """The device page is mounted read-only: the tenant is gated through a descriptor that cannot write."""
    rig.page.chmod(0o444)
    engine = rig.engine()
    tenant = rig.tenant(
        """
        import ctypes, re
        maps = open("/proc/self/maps").read()
        modes = re.findall(r"^[0-9a-f-]+ (\\S+) .*device\\.page$", maps, re.M)
        assert modes and all("w" not in mode for mode in modes), modes
        spin()
        """
    )
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    tenant.stands_still()


def test_progress_and_granted_time(rig):
    engine = rig.engine()
    tenant = rig.tenant(
        """
        import ctypes
        library = ctypes.CDLL(None)
        library.rowen_tenant_granted_ns.restype = ctypes.c_uint64
        report = library.rowen_tenant_progress
        report.argtypes = [ctypes.c_uint64] * 3
        step = 0
        while True:
            report(step, 1000, 10 * step + 7)
            granted = library.rowen_tenant_granted_ns()
            _counts[8:16] = granted.to_bytes(8, "little")
            step += 1
            count()
        """
    )
    tenant.advances(2)
    until(lambda: rig.device.counts().tenants[0].tokens > 0)
    engine.call("busy")
    rig.acknowledged()
    before = rig.device.counts()
    tenant.stands_still(2)
    after = rig.device.counts()
    assert before.tenants[0] == after.tenants[0]
    first = after.tenants[0]
    assert first.completed * 10 == first.tokens
    assert first.total == 1000
    assert 0 < first.granted_seconds <= first.open_seconds + 0.5
    assert first.preemptions == 1
    engine.call("idle")
    tenant.advances(2)
    later = rig.device.counts().tenants[0]
    assert later.granted_seconds > first.granted_seconds
    tenant.kill()
    until(lambda: rig.device.reset(0))
    assert rig.device.counts().tenants[0].tokens == 0
