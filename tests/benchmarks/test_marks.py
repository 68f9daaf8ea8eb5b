"""How far a job has got within an iteration."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from coserving.marking import marking
from coserving.marks import MARKS_ENV, Marks, MarkWriter, tokens_between
from coserving.reports import Report

from rowen.crds.names import PYTHON_PATH_ENV


def marks_of(*rows):
    return Marks(*np.array(rows, dtype=float).T, held=np.arange(len(rows), dtype=float))


def test_tokens_are_told_by_the_work_within_an_iteration():
    # An iteration of ten units and 100 tokens; the second one is under load from 20 to 40, and idle from there on.
    marks = marks_of((10, 0, 0), (20, 10, 0), (30, 12, 4), (40, 14, 8), (41, 20, 8), (42, 30, 8))
    reports = [Report(10.0, 0), Report(20.0, 100), Report(41.0, 200), Report(42.0, 300)]
    assert tokens_between(marks, reports, 20.0, 40.0) == pytest.approx(40)
    assert tokens_between(marks, reports, 25.0, 35.0) == pytest.approx(20)
    assert tokens_between(marks, reports, 40.0, 41.0) == pytest.approx(60)
    assert tokens_between(marks, reports, 0.0, 50.0) == pytest.approx(300)
    assert marks.online_between(25.0, 35.0) == pytest.approx(4)
    assert marks.held_between(20.0, 40.0) == pytest.approx(2)


def test_a_job_that_has_ended_no_iteration_cannot_be_told_of():
    with pytest.raises(RuntimeError, match="not ended an iteration"):
        tokens_between(marks_of((10, 0, 0), (20, 10, 0)), [Report(10.0, 0), Report(20.0, 0)], 10.0, 20.0)


def test_marks_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "rider.marks"
    with pytest.raises(RuntimeError, match=r"into rider\.marks"):
        Marks.read(path)
    writer = MarkWriter(path)
    writer.worked(3)
    writer.online_seconds += 0.5
    writer.held += 1
    writer.worked(4)
    path.write_bytes(path.read_bytes() + b"half a mark")
    found = Marks.read(path)
    assert found.units.tolist() == [3, 7]
    assert found.online_seconds.tolist() == [0, 0.5]
    assert found.held.tolist() == [0, 1]
    assert found.seconds[0] <= found.seconds[1] <= time.monotonic()


def test_an_engine_that_loads_the_plugin_marks_what_rides(tmp_path):
    # A Python of its own, as an engine is: what it changes in the runtime lasts.
    program = """
from importlib.metadata import entry_points
from types import SimpleNamespace

(point,) = [each for each in entry_points(group="vllm.general_plugins") if each.name == "coserving_marking"]
point.load()()
point.load()()
from rowen.demo.samples import SHAPE
from rowen.runtime.coserve.learner import Phase
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.deferral import Deferral, Waiting
from rowen.runtime.vllm.riding.tally import Tally

tally = Tally()
tally.step(Load(decode_rows=1, ride_tokens=2), 0.25, 6)
tally.added(0.05)
tally.part(SimpleNamespace(phase=Phase.HEAD, tokens=40), 0.5)
bound = SimpleNamespace(seconds=lambda load: 0.0)
planner = SimpleNamespace(
    bound=lambda load: 0.1, riders_wait=True, predictor=bound, kept=True, prefill_seconds=lambda load: 0.1,
    first_token_seconds=9.0,
)
for seconds in (0.1, 0.2, 9.0):
    Deferral(planner).decide(Waiting(1, 10, 55, seconds, Load(decode_rows=1), 100, 8))
tally.part(SimpleNamespace(phase=Phase.HEAD, tokens=1), 0.0)
print(SHAPE.layers * 2, tally.sums().seconds, tally.sums().riding_seconds)
"""
    marks = tmp_path / "rider.marks"
    marks.write_bytes(b"of an engine before")
    path = {PYTHON_PATH_ENV: os.pathsep.join(entry for entry in sys.path if entry)}
    environment = marking(tmp_path, marks, path)
    assert environment[MARKS_ENV] == str(marks)
    told = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, check=True, capture_output=True, timeout=120
    ).stdout.split()
    found, units = Marks.read(marks), float(told[0])
    assert found.units.tolist() == [units, units + 40, units + 41]
    assert found.online_seconds.tolist() == pytest.approx([0.25, 0.2, 0.2])
    assert found.held.tolist() == [0, 0, 2]
    assert [float(each) for each in told[1:]] == [0.25, 0.5]
