"""What time was listened to, in numbers."""

import pytest

from rowen.operator.world.listening import Listening, extended


@pytest.mark.parametrize(
    ("heard", "now", "seconds"),
    [
        (120.0, 180.0, 60.0),
        (120.0, 250.0, 80.0),  # nobody listened after 200
        (50.0, 180.0, 80.0),  # nor before 100
        (180.0, 180.0, 0.0),
        (180.5, 181.0, 0.5),
        (190.0, 180.0, 0.0),  # heard after this moment
    ],
)
def test_silence_is_what_was_listened_to_since(heard: float, now: float, seconds: float) -> None:
    assert Listening(100.0, 200.0).silence(heard, now) == seconds


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (200.0, Listening(100.0, 200.0, 7.0)),
        (245.0, Listening(100.0, 245.0, 7.0)),
        (245.5, Listening(245.5, 245.5, 107.0)),
        (199.0, Listening(199.0, 199.0, 107.0)),
    ],
)
def test_a_sign_extends_it_or_begins_it_anew(now: float, expected: Listening) -> None:
    made = extended(Listening(100.0, 200.0, 7.0), now, 45.0)
    assert made == expected
    assert made.seconds == expected.before_seconds + expected.until - expected.since


def test_a_gap_takes_nothing_from_the_time_that_was_listened_to() -> None:
    before = Listening(100.0, 200.0, 7.0)
    assert before.seconds == 107.0
    assert extended(before, 900.0, 45.0).seconds == 107.0
    assert extended(extended(before, 900.0, 45.0), 910.0, 45.0).seconds == 117.0
