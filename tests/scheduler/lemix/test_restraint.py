"""When new training is kept off a service, each branch by hand."""

import pytest

from rowen.scheduler.lemix.restraint import LEAST_REQUESTS, Attainment, restraint


# Target 0.9 of 100: two deviations are 2·√(0.9·0.1/100) = 0.06.
@pytest.mark.parametrize(
    ("met", "before", "restrained"),
    [
        (90, True, False),
        (95, False, False),
        (89, False, False),
        (89, True, True),
        (85, False, False),
        (83, False, True),
        (83, True, True),
        (0, False, True),
    ],
)
def test_it_begins_with_a_clear_miss_and_ends_when_the_slo_is_kept(met, before, restrained):
    assert restraint(Attainment(100, met, 0.9), before).restrained is restrained


@pytest.mark.parametrize("before", [True, False])
def test_few_requests_change_nothing(before):
    assert LEAST_REQUESTS == 50
    found = restraint(Attainment(49, 0, 0.9), before)
    assert found.restrained is before
    assert found.reason == "49 requests, fewer than 50: as before"
    assert restraint(Attainment(0, 0, 0.9), before).restrained is before
    assert restraint(Attainment(50, 0, 0.9), before).restrained


def test_a_target_of_all_allows_no_miss():
    assert restraint(Attainment(100, 99, 1.0), False).restrained
    assert not restraint(Attainment(100, 100, 1.0), True).restrained


def test_the_reason_says_what_was_compared():
    kept = "0.900 of 100 requests within the SLO, target 0.900"
    assert restraint(Attainment(100, 90, 0.9), False).reason == kept
    missed = "0.500 of 100 requests within the SLO, target 0.900"
    assert restraint(Attainment(100, 50, 0.9), False).reason == missed
    between = "0.890 of 100 requests within the SLO, target 0.900: within 0.060, as before"
    assert restraint(Attainment(100, 89, 0.9), False).reason == between


def test_a_miss_of_just_two_deviations_is_not_clear():
    # Target 0.5 of 64: two deviations are 2·√(0.25/64) = 0.125; 24 of 64 are 0.375.
    assert not restraint(Attainment(64, 24, 0.5), False).restrained
    assert restraint(Attainment(64, 23, 0.5), False).restrained
