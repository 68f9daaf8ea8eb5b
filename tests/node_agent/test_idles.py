"""How idle a device was over longer windows."""

import pytest

from rowen.node_agent.report.idles import LongIdles


def seen(until: int, idle: float = 0.5, every: int = 5) -> LongIdles:
    """A device that was read so often until then, from 1000 on, and idle for so much of the time."""
    idles = LongIdles()
    for now in range(1000, 1000 + until + 1, every):
        idles.add(float(now), (now - 1000) * idle)
    return idles


def told(idles: LongIdles, least: float = 60.0) -> list[tuple[float, float]]:
    return [(window.seconds, window.fraction) for window in idles.windows(least)]


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (0, []),
        (60, []),
        (65, [(65, 0.5)]),
        (3600, [(3600, 0.5)]),
        # Beyond the hour, the day's is longer. An hour begins with one of its minutes.
        (7230, [(3630, 0.5), (7230, 0.5)]),
        (100_000, [(3640, 0.5), (87_040, 0.5)]),
    ],
)
def test_windows_cover_what_was_seen(until: int, expected: list[tuple[float, float]]) -> None:
    found = told(seen(until))
    assert found == expected


def test_each_window_has_its_own_fraction() -> None:
    idles = seen(7200, idle=0.0)
    for now in range(8260, 8200 + 3600 + 1, 60):
        idles.add(float(now), (now - 8200) * 0.9)
    assert told(idles) == [(3600, 0.9), (10800, 0.3)]


def test_a_counter_that_began_anew_is_no_negative_time() -> None:
    idles = seen(600)
    idles.add(1700.0, 0.0)
    idles.restart()
    idles.add(1800.0, 7.0)
    idles.add(2000.0, 3.0)
    assert told(idles) == [(200, 0.0)]


def test_what_was_before_a_restart_is_forgotten() -> None:
    idles = seen(1000)
    idles.restart()
    assert told(idles) == []


def test_a_day_is_kept_in_few_samples() -> None:
    idles = seen(200_000, every=1)
    assert sum(len(ring) for ring in idles._rings.values()) <= 124
