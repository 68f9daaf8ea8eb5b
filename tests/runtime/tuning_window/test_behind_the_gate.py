"""The tuner behind a real gate, on a device whose engine takes its memory again and again."""

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate.borrower import BYTES, Borrower
from gate.rig import Rig, Tenant, until
from runtime.server import environment
from runtime.tuning_runs import Ended, spec

HANDLES = 12
WANTED = 2 * 3 + 1
"""Of two layers, and one handle for what the second one is given."""
STEPS = 12
SEED = 20261122

TUNER = """
import sys
from rowen.runtime import worker
report, turns = worker.Progress.report, open(sys.argv[1], "rb", 0)
def report_and_wait(self, *progress):
    report(self, *progress)
    turns.read(1)
worker.Progress.report = report_and_wait
from rowen.runtime.tuning.__main__ import tune
sys.exit(worker.run("steps", tune))
"""
"""The worker, which makes a step when it is its turn: however the machine shares its CPUs, none goes undisturbed."""


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    # On a busy machine the job's imports alone take a minute.
    monkeypatch.setattr("gate.rig.DEADLINE", 300.0)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        # With as many threads as the job that nobody disturbs: their number decides the order of a sum.
        rig = Rig(Path(folder), cpus=tuple(sorted(os.sched_getaffinity(0))), memory=(HANDLES, BYTES))
        yield rig
        rig.close()


class Job:
    """The tuner with an arena."""

    def __init__(self, rig: Rig, job: Any, fifo: Path) -> None:
        os.mkfifo(fifo)
        self._turns = os.open(fifo, os.O_RDWR)
        rig.on_close(lambda: os.close(self._turns))
        self._rig = rig
        settings = environment(ROWEN_JOB_SPEC=job.model_dump_json(by_alias=True), ROWEN_POOL_BYTES=str(HANDLES * BYTES))
        self.tenant: Tenant = rig.run([sys.executable, "-c", TUNER, str(fifo)], **{**settings, **rig.environment()})
        until(lambda: self.number is not None or self.ended, "the job has its arena")

    @property
    def ended(self) -> bool:
        return self.tenant.process.poll() is not None

    @property
    def number(self) -> int | None:
        """Of its arena."""
        borrowers = self._rig.device.loans.borrowers
        return next((number for number, known in borrowers.items() if known.slot == 0), None)

    @property
    def holds(self) -> int:
        """Handles that it has mapped."""
        return 0 if self.number is None else self._rig.device.loans.status().of(self.number).held

    @property
    def steps(self) -> int:
        return self._rig.device.counts().tenants[0].completed

    def has_made(self, step: int) -> bool:
        """Whether it has made the step, or has ended."""
        return self.steps > step or self.ended

    def lost_in(self, step: int, taken: int) -> int:
        """How many of the handles that were just taken were taken before it had made the step."""
        return 0 if self.has_made(step) else taken

    def turn(self) -> None:
        os.write(self._turns, b".")


class Engine:
    """It has the device's memory for a moment, and leaves it to the job again."""

    def __init__(self, rig: Rig) -> None:
        self._program = Borrower(rig, None).ready()
        assert self._program.ask("open") == HANDLES
        self._loans = rig.device.loans
        self._number = next(number for number, known in self._loans.borrowers.items() if known.slot is None)

    def take(self, handles: int) -> int:
        """Returns how many of them were the job's."""
        before = self._loans.status().handles_reclaimed
        self._program.ask("want", handles)
        self._program.ask("busy")
        assert self._program.ask("wait", handles) == 1
        taken = self._loans.status().handles_reclaimed - before
        self._program.ask("want", 0)
        self._program.ask("idle")
        until(self._needs_none, "the engine needs no memory")
        return taken

    def _needs_none(self) -> bool:
        pressures = self._loans.status().of(self._number).pressures
        return self._loans.demand(self._number, pressures=pressures, target=0, growth=0, threshold=1.0)


@pytest.mark.timeout(600)
def test_whatever_is_taken_it_ends_with_the_same_bytes(
    rig: Rig, straight: tuple[Path, Ended], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    plain, undisturbed = straight
    assert undisturbed.code == 0
    draw = random.Random(SEED)
    engine = Engine(rig)
    job = Job(rig, spec(tiny_model, dataset, tmp_path / "out"), tmp_path / "turns")
    assert job.number is not None, job.tenant.process.communicate()
    rig.device.loans.share(job.number, 0, HANDLES)

    hits = 0
    for step in range(STEPS):
        # From here on it has what it maps for this step.
        engine.take(HANDLES)
        job.turn()
        for _ in range(draw.randint(1, 3)):
            time.sleep(draw.random() * 0.03)
            hits += job.lost_in(step, engine.take(HANDLES - draw.choice([0, 4])))
        while not hits and not job.has_made(step):
            until(lambda step=step: job.holds or job.has_made(step), "the job maps something")
            hits += job.lost_in(step, engine.take(HANDLES))
        until(lambda step=step: job.has_made(step), "the job makes a step")
    assert hits > 0
    assert rig.device.loans.status().of(job.number).wanted == WANTED
    job.turn()
    _, errors = job.tenant.process.communicate(timeout=120)
    assert job.tenant.process.returncode == 0, errors[-4000:]
    for name in ("adapter_model.safetensors", "metrics.json"):
        assert (tmp_path / "out" / name).read_bytes() == (plain / name).read_bytes(), name
