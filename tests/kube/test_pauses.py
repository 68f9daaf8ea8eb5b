"""Pauses grow with each failure, follow the API server's wish, and end somewhere."""

import pytest

from rowen.kube.errors import RefusedError, UnreachableError
from rowen.kube.pauses import pause_seconds

AWAY = UnreachableError("away")


def busy(retry_after_seconds: float | None) -> RefusedError:
    return RefusedError(429, "TooManyRequests", "busy", retry_after_seconds)


@pytest.mark.parametrize(
    ("failures", "error", "seconds"),
    [
        (1, AWAY, 0.5),
        (2, AWAY, 1.0),
        (4, AWAY, 4.0),
        (6, AWAY, 10.0),
        (10_000, AWAY, 10.0),
        (1, ValueError(), 0.5),
        (1, busy(None), 0.5),
        (1, busy(3.0), 3.0),
        (4, busy(3.0), 4.0),
        (1, busy(15.0), 15.0),
        (1, busy(3600.0), 20.0),
    ],
)
def test_pause(failures: int, error: Exception, seconds: float) -> None:
    for _ in range(20):
        assert seconds <= pause_seconds(error, failures, first=0.5, most=10.0) <= 1.25 * seconds


def test_a_wish_for_more_than_a_client_can_wait_is_cut() -> None:
    for _ in range(20):
        assert 8.0 <= pause_seconds(busy(20.0), 1, first=1.0, most=8.0, most_wished=8.0) <= 10.0


def test_clients_that_failed_together_do_not_come_back_together() -> None:
    assert len({pause_seconds(AWAY, 1, first=0.5, most=10.0) for _ in range(20)}) > 1
