import pytest

from rowen.demo.verdict.timeline import ServedRequest, Transition, holder_spans, offline_spans


def transition(closed, opened, tenants=1):
    return Transition(closed, closed + 0.001, opened, 0.001, tenants)


def test_offline_work_holds_the_device_from_open_to_close():
    transitions = [transition(2.0, 3.0), transition(5.0, 6.0)]
    assert offline_spans(transitions, [(0.0, 20.0)], 0.0, 10.0) == [(0.0, 2.0), (3.0, 5.0), (6.0, 10.0)]


@pytest.mark.parametrize(
    ("transitions", "present", "expected"),
    [
        ([], [(0.0, 10.0)], []),
        ([transition(2.0, 3.0)], [], []),
        ([transition(2.0, None)], [(0.0, 10.0)], [(0.0, 2.0)]),
        ([transition(2.0, 3.0)], [(1.0, 4.0), (7.0, 8.0)], [(1.0, 2.0), (3.0, 4.0), (7.0, 8.0)]),
        ([transition(-5.0, -4.0), transition(20.0, None)], [(0.0, 30.0)], [(0.0, 10.0)]),
    ],
)
def test_without_tenants_or_while_closed_nobody_holds_it(transitions, present, expected):
    assert offline_spans(transitions, present, 0.0, 10.0) == expected


def test_holders_cover_the_time_without_gaps():
    held = holder_spans([(1.0, 2.0), (1.5, 3.0)], [(2.5, 5.0)], 0.0, 6.0)
    assert held == [
        ((0.0, 1.0), "none"),
        ((1.0, 3.0), "online"),
        ((3.0, 5.0), "offline"),
        ((5.0, 6.0), "none"),
    ]


def test_nothing_known_is_nobody():
    assert holder_spans([], [], 0.0, 6.0) == [((0.0, 6.0), "none")]


def test_the_agents_answers_are_read():
    wire = {"closed": 1.5, "acknowledged": None, "opened": None, "latency_seconds": None, "tenants": 2}
    assert Transition.from_wire(wire) == Transition(1.5, None, None, None, 2)
    wire = {"end": 2.0, "ttft_seconds": 0.1, "tpot_seconds": None, "preemptions": 1, "tenant_present": True}
    assert ServedRequest.from_wire(wire) == ServedRequest(2.0, 0.1, 0.0, 1, True)
