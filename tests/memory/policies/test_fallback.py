"""When an engine counts as one that serves from memory of its own."""

from rowen.node_agent.memory.fallback import PATIENCE_SECONDS, Fallback


def test_an_engine_that_comes_in_has_time_to_ask():
    fallback = Fallback()
    assert [fallback.look("a", [False], now) for now in (0.0, PATIENCE_SECONDS - 1, PATIENCE_SECONDS)] == [
        False,
        False,
        True,
    ]
    assert not fallback.look("a", [True], PATIENCE_SECONDS + 1)


def test_one_process_with_memory_is_enough():
    fallback = Fallback()
    assert not any(fallback.look("a", [False, True, False], now) for now in (0.0, 100.0))
    assert not fallback.look("a", [False, False], 200.0)
    assert fallback.look("a", [False, False], 200.0 + PATIENCE_SECONDS)


def test_an_engine_of_which_nobody_has_come_in_is_not_known():
    fallback = Fallback()
    assert not any(fallback.look("a", [], now) for now in (0.0, 100.0))


def test_the_next_pod_has_time_of_its_own():
    fallback = Fallback()
    fallback.look("a", [False], 0.0)
    assert fallback.look("a", [False], 100.0)
    assert not fallback.look("b", [False], 100.0)


def test_whoever_had_memory_or_was_gone_in_between_has_its_time_anew():
    for between in ([], [True]):
        fallback = Fallback()
        seen = [fallback.look("a", have, now) for have, now in (([False], 0), (between, 5), ([False], 12))]
        assert seen == [False, False, False]
        assert not fallback.look("a", [False], 21.9)
        assert fallback.look("a", [False], 22.0)


def test_ten_seconds_are_counted_from_the_first_look():
    fallback = Fallback()
    looks = (3.0, 7.0, 12.9, 13.0)
    assert [fallback.look("a", [False], now) for now in looks] == [False, False, False, True]
