"""A gate that a benchmark holds closed."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from colocation.device_gate import Gate

COUNTER = """
import ctypes
library = ctypes.CDLL(None)
library.rowen_tenant_progress.argtypes = [ctypes.c_uint64] * 3
step = 0
while True:
    step += 1
    library.rowen_tenant_progress(step, 2**62, step)
"""


@pytest.fixture
def gate():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        gate = Gate(Path(folder) / "gate", max(os.sched_getaffinity(0)))
        tenant = subprocess.Popen([sys.executable, "-c", COUNTER], env=os.environ | gate.tenant_environment())
        gate.adopt(tenant.pid)
        yield gate
        tenant.kill()
        tenant.wait()
        gate.close()


def works(gate):
    before, deadline = gate.tokens(), time.monotonic() + 20
    while gate.tokens() == before:
        assert time.monotonic() < deadline, "the tenant does not work"
        gate.renew()
        time.sleep(0.01)


def test_a_tenant_works_unless_the_gate_is_held(gate):
    works(gate)
    gate.hold(closed=True)
    before = gate.tokens()
    gate.renew()
    time.sleep(0.05)
    assert gate.tokens() == before
    gate.hold(closed=False)
    works(gate)
