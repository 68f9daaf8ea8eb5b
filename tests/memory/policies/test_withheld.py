"""When the pods of processes that do not hand over their memory are evicted."""

from rowen.node_agent.memory.withheld import PATIENCE_SECONDS, Withheld

ONE, OTHER, NEIGHBOUR = (0, 11), (0, 12), (1, 13)


def test_running_time_counts_and_not_how_long_the_gate_was_closed():
    withheld = Withheld()
    assert withheld.due({ONE}, [50.0, 0.0], 0.0) == []
    assert withheld.due({ONE}, [49.9 + PATIENCE_SECONDS, 0.0], 1000.0) == []
    assert withheld.due({ONE}, [50.0 + PATIENCE_SECONDS, 0.0], 2000.0) == [0]


def test_who_has_handed_over_is_not_due():
    withheld = Withheld()
    assert withheld.due({ONE}, [0.0, 0.0], 0.0) == []
    assert withheld.due(set(), [100.0, 0.0], 100.0) == []
    assert withheld.due({ONE}, [200.0, 0.0], 200.0) == []


def test_each_process_has_time_of_its_own():
    withheld = Withheld()
    assert withheld.due({ONE}, [0.0, 0.0], 0.0) == []
    assert withheld.due({OTHER, NEIGHBOUR}, [PATIENCE_SECONDS, 0.0], 10.0) == []
    assert withheld.due({OTHER, NEIGHBOUR}, [PATIENCE_SECONDS + 1, PATIENCE_SECONDS], 20.0) == [1]


def test_who_was_not_evicted_is_due_again_later():
    withheld = Withheld()
    assert withheld.due({ONE}, [0.0], 0.0) == []
    assert [now for now in range(20, 60) if withheld.due({ONE}, [100.0], float(now))] == [20, 30, 50]


def test_a_process_has_ten_seconds():
    withheld = Withheld()
    looks = [(0, 5.0), (1, 14.999), (2, 15.0)]
    assert [withheld.due({ONE}, [opened], float(now)) for now, opened in looks] == [[], [], [0]]
