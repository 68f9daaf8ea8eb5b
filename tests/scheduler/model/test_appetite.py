"""What is known of a job's use of memory on a device: its spec, and what was seen of its class on such a device."""

from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.evidence import MemoryEvidence, features, learned
from rowen.scheduler.model.memory import MemoryNeed, linear_need
from rowen.scheduler.model.profile import Profile

PRIOR = linear_need(400, doubt=0.5)
SEEN = MemoryEvidence().updated(features((100,), 400), 70.0, 600.0)
OWN = 100


def appetite(memory: MemoryEvidence | None, prior: MemoryNeed = PRIOR) -> Appetite:
    return Appetite("class", OWN, prior, {("class", "gpu"): Profile(100.0, 600.0, 0.0, memory=memory)})


def test_what_was_seen_on_such_a_device_goes_before_what_the_spec_says() -> None:
    found = appetite(SEEN)
    assert found.on("gpu", 1000) == learned(PRIOR, SEEN, 100.0) != PRIOR
    assert found.on("other", 1000) == PRIOR


def test_a_class_that_was_measured_without_its_memory_goes_by_its_spec() -> None:
    assert appetite(None).on("gpu", 1000) == PRIOR
    assert Appetite("class", OWN, PRIOR, {}).on("gpu", 1000) == PRIOR


def test_where_a_job_leaves_no_memory_to_lend_nothing_is_made_of_what_was_seen() -> None:
    for bytes_ in (OWN, OWN - 1):
        assert appetite(SEEN).on("gpu", bytes_) == PRIOR.within(0)


def test_on_a_smaller_device_the_curve_ends_at_what_it_has() -> None:
    assert appetite(None).on("gpu", OWN + 200) == PRIOR.within(200)
    assert appetite(SEEN).on("gpu", OWN + 1) == learned(PRIOR.within(1), SEEN, 100.0)


def test_what_is_known_of_a_device_is_worked_out_once() -> None:
    found = appetite(SEEN)
    assert found.on("gpu", 1000) is found.on("gpu", 1000)
    assert found.on("gpu", 1000) is not found.on("gpu", 300)
