"""When a node counts as heard, and what counts as silence."""

import pytest
from scheduler.builders import NOW

from rowen.scheduler.monitor.hearing import (
    BLIND_SECONDS,
    KEPT_SECONDS,
    Hearing,
    Listening,
    Telling,
    Word,
    advanced,
    stalled,
    untold,
)


def heard(hearing: Hearing, now: float, contact: float | None = None, **stamps: float) -> Hearing:
    """One look at the heartbeats; the API server has just answered unless `contact` is given."""
    return advanced(hearing, stamps, {}, now if contact is None else contact, now, 15.0)


@pytest.mark.parametrize(
    ("stamp", "first"),
    [(NOW - 3, NOW - 3), (NOW, NOW), (NOW + 3600, NOW), (NOW - 3600, NOW - 3600)],
)
def test_a_first_heartbeat_is_as_old_as_it_says_and_never_in_the_future(stamp: float, first: float) -> None:
    assert heard(Hearing(), NOW, n=stamp).words == {"n": Word(stamp, first, first)}


@pytest.mark.parametrize("wrong", [-3600.0, 0.0, 3600.0])
def test_a_node_is_heard_when_its_heartbeat_changes_whatever_its_clock_says(wrong: float) -> None:
    first = heard(Hearing(), NOW, n=NOW + wrong)
    same = heard(first, NOW + 4, n=NOW + wrong)
    assert same.words == first.words
    assert heard(same, NOW + 5, n=NOW + wrong + 5).words["n"].heard == NOW + 5


def test_a_nodes_clock_that_is_put_back_is_a_change_too() -> None:
    first = heard(Hearing(), NOW, n=NOW)
    assert heard(first, NOW + 5, n=NOW - 600).words["n"] == Word(NOW - 600, NOW + 5, NOW + 5)


def test_a_node_without_heartbeat_and_report_is_remembered_for_a_while() -> None:
    first = heard(Hearing(), NOW, a=NOW, b=NOW)
    later = heard(first, NOW + KEPT_SECONDS, b=NOW)
    assert later.words["a"] == first.words["a"]
    assert heard(later, NOW + KEPT_SECONDS + 0.1, b=NOW).words.keys() == {"b"}


def test_listening_begins_with_the_first_answer() -> None:
    assert heard(Hearing(), NOW, contact=float("-inf")).listening.silence(NOW - 99, NOW) == 0.0
    assert heard(Hearing(), NOW, contact=NOW - 1).listening == Listening(NOW - 1, NOW - 1)


@pytest.mark.parametrize(("gap", "begins"), [(BLIND_SECONDS, NOW), (BLIND_SECONDS + 0.1, NOW + BLIND_SECONDS + 0.1)])
def test_a_gap_without_an_answer_is_no_listening(gap: float, begins: float) -> None:
    after = heard(heard(Hearing(), NOW), NOW + gap)
    assert after.listening == Listening(begins, NOW + gap)


def test_without_an_answer_listening_does_not_go_on() -> None:
    after = heard(heard(Hearing(), NOW), NOW + 60, contact=NOW)
    assert after.listening == Listening(NOW, NOW)
    assert after.listening.silence(NOW, NOW + 60) == 0.0


def test_an_answer_that_is_known_does_not_move_it_back() -> None:
    assert heard(heard(Hearing(), NOW), NOW + 1, contact=NOW - 0.5).listening == Listening(NOW, NOW)


def test_the_schedulers_own_clock_that_is_put_back_begins_anew() -> None:
    before = heard(Hearing(), NOW, n=NOW)
    after = heard(before, NOW - 3600, contact=NOW - 3601, n=NOW)
    assert after.listening == Listening(NOW - 3601, NOW - 3601)
    assert after.words["n"].heard == NOW - 3600
    assert heard(after, NOW - 3595, n=NOW).words["n"].heard == NOW - 3600


@pytest.mark.parametrize(
    ("since", "until", "last", "silence"),
    [
        (NOW - 60, NOW, NOW - 20, 20.0),
        (NOW - 10, NOW, NOW - 20, 10.0),
        (NOW - 60, NOW - 4, NOW - 20, 16.0),
        (NOW - 60, NOW - 30, NOW - 20, 0.0),
        (NOW - 60, NOW + 9, NOW - 20, 20.0),
        (NOW, NOW, NOW - 20, 0.0),
    ],
)
def test_silence_is_what_was_listened_to(since: float, until: float, last: float, silence: float) -> None:
    assert Listening(since, until).silence(last, NOW) == silence


def test_by_default_everything_was_listened_to() -> None:
    assert Listening().silence(NOW - 20, NOW) == 20.0


@pytest.mark.parametrize("stall", [1.0, 4.9, 5.1, 15.0, 30.0])
def test_a_dead_node_is_silent_for_long_however_long_each_pass_computes(stall: float) -> None:
    """In each round the scheduler computes, then listens for four seconds."""
    hearing, now = heard(Hearing(), NOW, n=NOW), NOW
    for listened in range(4, 41, 4):
        hearing, now = stalled(hearing, now, now + stall), now + stall + 4
        hearing = heard(hearing, now, n=NOW)
        assert hearing.listening.silence(NOW, now) == pytest.approx(listened)


@pytest.mark.parametrize(("free", "silence"), [(5.0, 5.0), (5.1, 0.0)])
def test_no_answer_although_nothing_was_computed_is_an_outage(free: float, silence: float) -> None:
    hearing = stalled(heard(Hearing(), NOW, n=NOW), NOW, NOW + 20)
    after = heard(hearing, NOW + 20 + free, n=NOW)
    assert after.listening.silence(NOW, NOW + 20 + free) == pytest.approx(silence)


@pytest.mark.parametrize(("stall", "counts"), [(0.9, 4.0), (1.0, 3.0)])
def test_short_computing_is_no_stall(stall: float, counts: float) -> None:
    after = heard(stalled(heard(Hearing(), NOW), NOW, NOW + stall), NOW + 4)
    assert after.listening.silence(NOW, NOW + 4) == pytest.approx(counts)


def test_the_oldest_of_many_stalls_is_forgotten() -> None:
    hearing = Hearing()
    for number in range(101):
        hearing = stalled(hearing, NOW + number, NOW + number + 1)
    assert hearing.listening.stalled(NOW, NOW + 101) == 100.0


@pytest.mark.parametrize(
    ("gap", "set_by", "begins"),
    [(15.0, 0.0, False), (15.5, 0.0, True), (5.0, -5.5, True), (5.0, -4.5, False), (5.0, 10.0, False),
     (5.0, 10.5, True), (-1.0, 3.0, True)],
)  # fmt: skip
def test_heartbeats_follow_one_another_unless_there_is_a_silence_or_a_clock_is_set(
    gap: float, set_by: float, begins: bool
) -> None:
    word = heard(heard(Hearing(), NOW, n=NOW), NOW + gap, n=NOW + gap + set_by).words["n"]
    assert word.steady == (NOW + gap if begins else NOW)


def told(hearing: Hearing, now: float, *, report: float, beat: float | None = None) -> Hearing:
    """One look at a node."""
    return advanced(hearing, {} if beat is None else {"n": beat}, {"n": report}, now, now, 15.0)


def test_a_node_with_heartbeats_is_heard_by_them_and_its_report_is_as_old_as_its_last_change() -> None:
    first = told(Hearing(), NOW, report=NOW - 40, beat=NOW - 2)
    assert first.words["n"] == Word(NOW - 2, NOW - 2, NOW - 2)
    assert first.tellings["n"] == Telling(NOW - 40, NOW - 40)
    later = told(first, NOW + 5, report=NOW - 40, beat=NOW + 3)
    assert later.words["n"] == Word(NOW + 3, NOW + 5, NOW - 2)
    assert later.tellings == first.tellings
    assert told(later, NOW + 9, report=NOW + 8, beat=NOW + 3).tellings["n"] == Telling(NOW + 8, NOW + 9)


@pytest.mark.parametrize(
    ("after", "report", "begins"), [(9.0, NOW + 9, False), (9.0, NOW - 9, True), (15.0, NOW + 3600, False),
                                    (15.5, NOW + 15, True), (-1.0, NOW + 1, True)]
)  # fmt: skip
def test_a_report_is_a_sign_of_life_beside_heartbeats_too(after: float, report: float, begins: bool) -> None:
    """An older agent may have been put in the place of one that sent heartbeats."""
    first = told(Hearing(), NOW, report=NOW, beat=NOW)
    word = told(first, NOW + after, report=report, beat=NOW).words["n"]
    assert word == Word(NOW, NOW + after, NOW + after if begins else NOW)


def test_a_first_report_beside_heartbeats_is_no_break() -> None:
    first = advanced(Hearing(), {"n": NOW}, {}, NOW, NOW, 15.0)
    assert told(first, NOW + 4, report=NOW - 9, beat=NOW).words["n"] == Word(NOW, NOW + 4, NOW)


def test_a_heartbeat_that_is_deleted_is_no_sign_of_life() -> None:
    first = told(Hearing(), NOW, report=NOW - 30, beat=NOW)
    gone = told(first, NOW + 4, report=NOW - 30)
    assert gone.words["n"] == Word(NOW - 30, NOW, NOW)
    assert told(gone, NOW + 5, report=NOW - 30, beat=NOW + 5).words["n"] == Word(NOW + 5, NOW + 5, NOW + 5)


def test_the_later_of_the_two_tells_how_old_a_node_is_that_is_seen_first() -> None:
    assert told(Hearing(), NOW, report=NOW - 3, beat=NOW - 600).words["n"] == Word(NOW - 600, NOW - 3, NOW - 3)


def test_the_reports_of_a_node_without_heartbeats_are_its_heartbeats() -> None:
    first = told(Hearing(), NOW, report=NOW)
    assert told(first, NOW + 5, report=NOW + 5).words["n"] == Word(NOW + 5, NOW + 5, NOW)


def test_a_first_report_is_never_from_the_future_and_is_so_after_a_clock_was_put_back() -> None:
    first = told(Hearing(), NOW, report=NOW + 3600)
    assert first.tellings["n"] == Telling(NOW + 3600, NOW)
    assert told(first, NOW - 60, report=NOW + 3600).tellings["n"] == Telling(NOW + 3600, NOW - 60)
    assert told(first, NOW + 60, report=NOW - 3600).tellings["n"] == Telling(NOW - 3600, NOW + 60)


@pytest.mark.parametrize(
    ("heard_ago", "told_ago", "late"),
    [(0.0, 120.0, []), (0.0, 120.1, ["n"]), (15.0, 600.0, ["n"]), (15.1, 600.0, []), (0.0, None, ["n"])],
)
def test_reports_are_late_where_a_node_lives_on_for_two_minutes_without_one(
    heard_ago: float, told_ago: float | None, late: list[str]
) -> None:
    told = {} if told_ago is None else {"n": Telling(NOW, NOW - told_ago)}
    hearing = Hearing({"n": Word(NOW, NOW - heard_ago, NOW - 999.0)}, told)
    assert untold(hearing, NOW, 15.0) == late


def test_a_node_that_has_just_come_is_not_late_with_its_first_report() -> None:
    assert untold(Hearing({"n": Word(NOW, NOW, NOW - 120.0)}), NOW, 15.0) == []
