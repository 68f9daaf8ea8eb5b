"""Offline work runs only as long as the API server takes this node's reports."""

import pytest

from rowen.node_agent.lease import lease_until


@pytest.mark.parametrize(
    ("now", "accepted", "until"),
    [
        (100.0, None, None),
        (100.0, 100.0, 102.0),
        (105.0, 100.0, 107.0),
        (128.5, 100.0, 130.0),  # never longer than the assignments
        (130.0, 100.0, None),
        (500.0, 100.0, None),
    ],
)
def test_lease(now, accepted, until):
    assert lease_until(now, accepted) == until
