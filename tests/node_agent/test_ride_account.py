"""For how long a rider was joined with an engine, and how far it came."""

from rowen.crds.ride.messages import JobProgress
from rowen.node_agent.ride.account import Account


def progress(tokens: int, completed: int = 1) -> JobProgress:
    return JobProgress(completed=completed, total=10, tokens=tokens)


def test_nothing_is_done_before_it_is_joined() -> None:
    counts = Account().counts(50.0)
    assert (counts.attached, counts.open_seconds, counts.granted_seconds, counts.reports) == (0, 0.0, 0.0, 0)
    assert (counts.completed, counts.total, counts.tokens) == (0, 0, 0)


def test_time_counts_while_it_is_joined() -> None:
    account = Account().joined(10.0)
    assert account.counts(13.0).attached == 1
    assert account.counts(13.0).open_seconds == 3.0
    account = account.joined(12.0).parted(14.0)
    assert (account.counts(20.0).attached, account.counts(20.0).open_seconds) == (0, 4.0)
    assert account.parted(25.0).joined(30.0).counts(31.0).open_seconds == 5.0


def test_a_clock_that_was_read_earlier_takes_nothing_away() -> None:
    assert Account().joined(10.0).counts(9.0).open_seconds == 0.0


def test_tokens_and_time_are_those_between_the_first_report_and_the_last() -> None:
    account = Account().joined(0.0).progressed(progress(100), 2.0)
    assert (account.counts(2.5).tokens, account.counts(2.5).granted_seconds) == (0, 0.0)
    account = account.progressed(progress(160, completed=4), 5.0)
    counts = account.counts(9.0)
    assert (counts.tokens, counts.granted_seconds, counts.reports) == (60, 3.0, 2)
    assert (counts.completed, counts.total) == (4, 10)
    account = account.progressed(progress(160), 6.0)
    assert (account.counts(9.0).tokens, account.counts(9.0).granted_seconds) == (60, 4.0)


def test_time_without_an_engine_is_not_granted() -> None:
    account = Account().joined(0.0).progressed(progress(0), 0.0).parted(1.0).joined(50.0).progressed(progress(9), 52.0)
    assert account.counts(60.0).granted_seconds == 3.0


def test_one_that_has_done_less_is_another_process() -> None:
    account = Account().joined(0.0).progressed(progress(0), 0.0).progressed(progress(500), 10.0)
    account = account.progressed(progress(40), 12.0).progressed(progress(90), 15.0)
    counts = account.counts(15.0)
    assert (counts.tokens, counts.granted_seconds, counts.reports) == (50, 3.0, 4)


def test_nothing_stops_it() -> None:
    counts = Account().joined(0.0).counts(1.0)
    assert (counts.preemptions, counts.backstops, counts.offence) == (0, 0, None)
