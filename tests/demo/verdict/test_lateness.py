"""How late the replayer was, by hand."""

import math

from outcomes import outcome

from rowen.demo.verdict.lateness import lateness


def test_all_requests_count_and_none_is_early():
    found = lateness([outcome(lateness=-0.5), outcome(lateness=0.1, error="reset"), outcome(lateness=0.3, lag=0.2)])
    assert (found.sent_ms_p50, round(found.sent_ms_p99, 6), round(found.loop_ms_p99, 6)) == (100.0, 296.0, 196.0)
    assert found.busy
    assert found.told() == (
        "the replayer sent its requests 100.0 ms (p50) and 296.0 ms (p99) late, and while 99 of 100 were in flight "
        "its own loop was late by 196.0 ms at most"
    )


def test_a_replay_without_requests_says_nothing_of_the_machine():
    found = lateness([])
    assert math.isnan(found.sent_ms_p99)
    assert not found.busy
