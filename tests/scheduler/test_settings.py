"""Settings from the environment."""

import pytest
from pydantic import ValidationError

from rowen.scheduler.settings import from_environment


def test_defaults() -> None:
    found = from_environment({"HOME": "/"})
    assert (found.namespace, found.port, found.policy.lease_seconds) == ("rowen-system", 9090, 15)


def test_every_number_can_be_set() -> None:
    found = from_environment(
        {"POD_NAMESPACE": "x", "ROWEN_SCHEDULER_PORT": "1234", "ROWEN_SCHEDULER_DWELL_SECONDS": "5"}
    )
    assert (found.namespace, found.port, found.policy.dwell_seconds) == ("x", 1234, 5.0)


@pytest.mark.parametrize("name", ["DWELL", "DWELL_SECONDS"])
def test_mistakes_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValidationError, match=name.lower()):
        from_environment({f"ROWEN_SCHEDULER_{name}": "soon"})
