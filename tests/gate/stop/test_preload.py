"""The gate library first in a list of preloaded libraries."""

import subprocess
import sysconfig
from pathlib import Path

import pytest

from rowen.node_agent.native import library_path


@pytest.fixture(scope="module")
def other_library(tmp_path_factory):
    made = tmp_path_factory.mktemp("other") / "libother.so"
    compiler = sysconfig.get_config_var("CC").split()[0]
    source = Path(__file__).parent / "other_library.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", str(source), "-o", str(made)], check=True, timeout=60)
    return made


def test_a_tenant_with_a_library_of_its_own_stops_with_that_and_cannot_keep_the_signal_away(rig, other_library):
    engine = rig.engine()
    tenant = rig.tenant(
        """
        import signal
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGURG, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))
        threading.Thread(target=spin, args=(0,), daemon=True).start()
        spin(1)
        """,
        LD_PRELOAD=f"{library_path()}:{other_library}",
    )
    tenant.advances(3)  # the program's two threads, and the library's
    assert all(tenant.counts(5)[3:]), "what the gate library replaces is handed on to the other library"
    # The library's thread runs before the process has attached: the kernel may have had to stop it then.
    before = rig.device.counts().backstops
    for _ in range(5):
        engine.call("busy")
        rig.acknowledged()
        tenant.stands_still(3)
        engine.call("idle")
        tenant.advances(3)
    assert rig.device.counts().backstops == before
