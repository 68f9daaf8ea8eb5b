"""Classes of jobs, and when jobs arrive."""

import json
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from rowen.simulator.jobs import DEFAULT_CLASSES, JobClass, arriving, read_classes
from rowen.simulator.json_file import InputError


def test_the_memory_factor_by_hand() -> None:
    kind = JobClass(name="job", want_bytes=100, curve=((0, 0.2), (50, 0.6), (100, 1.0)), loss=0.4)
    # phi less 0.4 times the missing part: 0.2 - 0.4 (cut at 0), 0.4 - 0.3, 0.6 - 0.2, 1.
    assert kind.memory_factor(np.array([0.0, 25.0, 50.0, 100.0, 1000.0])) == pytest.approx([0.0, 0.1, 0.4, 1.0, 1.0])


def test_jobs_bring_the_work_that_was_asked_for() -> None:
    jobs = arriving(DEFAULT_CLASSES, 100, 0.5, 7, 30 * 86_400.0, seed=3)
    assert [job.arrival for job in jobs[:7]] == [0.0] * 7
    assert [job.arrival for job in jobs] == sorted(job.arrival for job in jobs)
    work = sum(job.tokens / job.kind.tokens_per_second * job.kind.devices for job in jobs[7:])
    assert work == pytest.approx(0.5 * 100 * 30 * 86_400.0, rel=0.05)
    assert {job.sla for job in jobs if job.kind.name == "tune"} == {None, 0.2, 0.4}
    assert len({job.name for job in jobs}) == len(jobs)


@pytest.mark.parametrize("curve", [(), ((5, 0.1), (5, 0.2)), ((5, 0.1), (2, 0.2)), ((1, 0.5), (2, 0.4)), ((0, 1.5),)])
def test_a_curve_that_falls_or_says_nothing_is_refused(curve: object) -> None:
    with pytest.raises(ValidationError, match="curve"):
        JobClass.model_validate({"name": "job", "curve": curve})


def test_classes_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps([{"name": "a", "devices": 2, "slas": [None, 0.5]}]))
    assert read_classes(path)[0].devices == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "a list of job classes was expected, this one is empty"),
        ("{", "JSON was expected"),
        ('[{"name": "a", "speed": 3}]', "speed"),
        ('[{"name": "a"}, {"name": "a"}]', "a name of its own"),
        ('[{"name": "a", "mean_hours": 0}]', "mean_hours"),
    ],
)
def test_a_bad_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_classes(path)
    assert told in str(caught.value)
    assert str(path) in str(caught.value)
