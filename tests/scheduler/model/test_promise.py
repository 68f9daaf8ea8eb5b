"""What is asked of a prediction, and which jobs are taken for alike."""

import numpy as np
import pytest

from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.scheduler.model.promise import NO_PROMISE, Promise
from rowen.scheduler.model.workload import workload_class


def test_of_best_effort_nothing_is_asked() -> None:
    assert (NO_PROMISE.margin(0.3), NO_PROMISE.need(0.3)) == (0.0, 0.0)
    assert list(NO_PROMISE.needs(np.array([0.0, 0.3]))) == [0.0, 0.0]


def test_an_sla_asks_for_its_margin_too_and_for_the_same_of_one_as_of_many() -> None:
    """A bound of 2 x 0.05 = 0.1: 0.45 / 0.9. Of a prediction that is known to 0.1: 0.45 / 0.8."""
    promise = Promise(0.45)
    assert (promise.need(0.0), promise.need(0.1)) == (pytest.approx(0.5), pytest.approx(0.5625))
    assert promise.margin(0.1) == pytest.approx(0.1125)
    assert list(promise.needs(np.array([0.0, 0.1]))) == pytest.approx([0.5, 0.5625])


def template(image: str) -> OfflineJobSpec:
    return OfflineJobSpec.from_wire({"template": {"spec": {"containers": [{"image": image}]}}, "memory": "1Gi"})


def test_templates_are_alike_by_their_image_within_a_namespace() -> None:
    first = workload_class(template("a"), "ns")
    assert first.startswith("Template|ns/a|")
    assert first == workload_class(template("a"), "ns")
    assert len({first, workload_class(template("b"), "ns"), workload_class(template("a"), "other")}) == 3
