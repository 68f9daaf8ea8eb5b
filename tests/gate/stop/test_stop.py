"""A tenant stops while the gate is closed, and its results are those of an undisturbed run."""

import subprocess
import sys

from gate.rig import until

THREADS = """
for i in range(4):
    threading.Thread(target=spin, args=(i,), daemon=True).start()
threading.Event().wait()
"""


def test_every_thread_stops_and_resumes(rig):
    engine = rig.engine()
    tenant = rig.tenant(THREADS)
    tenant.advances(4)
    for _ in range(5):
        assert engine.call("busy") == 1
        rig.acknowledged()
        tenant.stands_still(4)
        engine.call("idle")
        rig.opened()
        tenant.advances(4)


def test_a_tenant_that_starts_behind_a_closed_gate_does_not_run(rig):
    engine = rig.engine()
    engine.call("busy")
    tenant = rig.tenant("spin()")
    until(lambda: rig.device.counts().tenant_processes == 1)
    tenant.stands_still()
    assert tenant.counts() == [0]
    engine.call("idle")
    tenant.advances()


def test_nothing_runs_without_an_engine(rig):
    tenant = rig.tenant("spin()")
    until(lambda: rig.device.counts().tenant_processes == 1)
    tenant.stands_still()
    assert tenant.counts() == [0]
    rig.engine()
    tenant.advances()


MATMUL = """
import hashlib
import numpy
source = numpy.random.default_rng(0)
digest = hashlib.sha256()
for _ in range(500):
    a = source.random((160, 160))
    digest.update((a @ a).tobytes())
    if "COUNTS" in os.environ:
        count()
print(digest.hexdigest())
"""


def test_results_are_unchanged(rig):
    engine = rig.engine()
    tenant = rig.tenant(MATMUL)
    tenant.advances()
    stops = 0
    while tenant.process.poll() is None:
        engine.call("busy")
        rig.acknowledged()
        stops += 1
        engine.call("idle")
        rig.opened()
    output, errors = tenant.process.communicate()
    assert tenant.process.returncode == 0, errors
    command = [sys.executable, "-c", "import os\n" + MATMUL]
    plain = subprocess.run(command, capture_output=True, text=True, check=True, env={"OPENBLAS_NUM_THREADS": "2"})
    assert stops > 3
    assert output == plain.stdout
