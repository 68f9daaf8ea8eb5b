"""The thresholds and times that the documentation tells."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from rowen.crds.names import NODE_LEASE_SECONDS
from rowen.scheduler.policy import Policy

DOCS = Path(__file__).parents[2] / "docs" / "scheduling.md"


def told() -> dict[str, float]:
    """By setting: what the table of settings says."""
    rows = re.findall(r"^\| ((?:`[A-Z_]+`(?:, )?)+) \| ([0-9., ]+) \|$", DOCS.read_text(), re.MULTILINE)
    pairs = [zip(names.split(", "), values.split(", "), strict=True) for names, values in rows]
    return {name.strip("`").lower(): float(value) for row in pairs for name, value in row}


def test_what_the_documentation_tells_is_what_holds() -> None:
    assert told() == Policy().model_dump()


def test_what_a_lease_is_no_setting_changes() -> None:
    """The node agent goes by the same number."""
    assert Policy.lease_seconds == NODE_LEASE_SECONDS == 30
    with pytest.raises(ValidationError, match="lease_seconds"):
        Policy.model_validate({"lease_seconds": 20})


def test_a_policy_stays_as_it_is_while_a_pass_goes_by_it() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Policy().dwell_seconds = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("name", sorted(Policy.model_fields))
def test_no_number_is_below_nothing_or_endless(name: str) -> None:
    for value in (-0.001, float("inf"), float("nan")):
        with pytest.raises(ValidationError):
            Policy.model_validate({name: value})


@pytest.mark.parametrize(("value", "fine"), [(0.0, True), (1.0, True), (1.001, False)])
def test_an_alignment_is_a_part(value: float, fine: bool) -> None:
    if fine:
        assert Policy(alignment_threshold=value).alignment_threshold == value
    else:
        with pytest.raises(ValidationError):
            Policy(alignment_threshold=value)


@pytest.mark.parametrize(
    "name", ["backoff_seconds", "backoff_limit_seconds", "monitor_window_seconds", "profile_seconds"]
)
def test_what_is_divided_by_is_never_nothing(name: str) -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate({name: 0.0})
