"""What follows from the stops that the kernel had to make."""

import pytest

from rowen.node_agent.attach.offence import (
    Decision,
    Evict,
    KernelStop,
    Nothing,
    PodRecord,
    Process,
    Reason,
    Tell,
    decide,
)

U, A, H, O = Reason.UNATTACHED, Reason.UNACKNOWLEDGED, Reason.HANDLER_REPLACED, Reason.OVERDRAWN  # noqa: E741
OLD = Process(4711, "nginx", open_seconds=1.0)
YOUNG = Process(4712, "sh", open_seconds=0.999)


def stop(at: float, reason: Reason = U, process: Process | None = OLD) -> KernelStop:
    return KernelStop(at, reason, process)


def kind(decision: Decision) -> tuple[type[Decision], Reason | None]:
    return type(decision), None if isinstance(decision, Nothing) else decision.reason


@pytest.mark.parametrize(
    ("stops", "told", "now", "expected"),
    [
        # Nothing has happened, or nothing new.
        ((), {}, 5, (Nothing, None)),
        ((stop(0),), {U: 0}, 1, (Nothing, None)),
        ((stop(0),), {U: 0}, 600, (Nothing, None)),
        # The first is told.
        ((stop(0),), {}, 0, (Tell, U)),
        ((stop(0, A),), {}, 0, (Tell, A)),
        ((stop(0, H),), {}, 0, (Tell, H)),
        ((stop(0, O),), {}, 0, (Tell, O)),
        ((stop(0, O, None),), {}, 0, (Tell, O)),
        # Later ones of the same reason are told when the last telling is 10 minutes ago.
        ((stop(0), stop(601)), {U: 1.5}, 601, (Nothing, None)),
        ((stop(0), stop(601)), {U: 1.5}, 601.5, (Tell, U)),
        ((stop(601),), {U: 601}, 5000, (Nothing, None)),
        # A reason that was not told yet is told at once; two of one stop, one after the other.
        ((stop(0), stop(700, A)), {U: 700}, 700, (Tell, A)),
        ((stop(0), stop(0, A)), {}, 0, (Tell, U)),
        ((stop(0), stop(0, A)), {U: 0}, 0, (Tell, A)),
        ((stop(0), stop(0, A)), {U: 0, A: 0}, 0, (Nothing, None)),
        # Again within 10 minutes, for whatever reason.
        ((stop(0), stop(600)), {U: 0}, 600, (Evict, U)),
        ((stop(0), stop(600.001)), {U: 0.1}, 600.1, (Tell, U)),
        ((stop(0), stop(0.1, O)), {}, 1, (Evict, O)),
        ((stop(0, A), stop(5, A), stop(5, H)), {}, 5, (Evict, A)),
        # It stays decided, whenever it is asked and whatever followed.
        ((stop(0), stop(5)), {U: 0}, 5000, (Evict, U)),
        ((stop(0), stop(5, A), stop(2000, H)), {}, 2000, (Evict, A)),
        ((stop(0), stop(5, A), stop(9, H)), {}, 9, (Evict, H)),
        # One who is arriving is not told of, two in a row are, and neither is a reason to evict.
        ((stop(0, U, YOUNG),), {}, 0, (Nothing, None)),
        ((stop(0, U, YOUNG), stop(0, U, YOUNG)), {}, 0, (Nothing, None)),
        ((stop(0, U, YOUNG), stop(600, U, YOUNG)), {}, 600, (Tell, U)),
        ((stop(0, U, YOUNG), stop(601, U, YOUNG)), {}, 601, (Nothing, None)),
        ((stop(0, U, YOUNG), stop(1, U, YOUNG), stop(2, U, YOUNG)), {U: 1}, 2, (Nothing, None)),
        ((stop(0), stop(1, U, YOUNG)), {U: 0}, 1, (Nothing, None)),
        ((stop(0, U, YOUNG), stop(1)), {}, 1, (Tell, U)),
        ((stop(0), stop(1, U, YOUNG), stop(2)), {U: 0}, 2, (Evict, U)),
        # Only who has not attached can be arriving.
        ((stop(0, A, YOUNG), stop(1, A, YOUNG)), {}, 1, (Evict, A)),
        ((stop(0, U, None), stop(1, U, None)), {}, 1, (Evict, U)),
    ],
)  # fmt: skip
def test_decision(
    stops: tuple[KernelStop, ...],
    told: dict[Reason, float],
    now: float,
    expected: tuple[type[Decision], Reason | None],
) -> None:
    assert kind(decide(PodRecord(stops, told), now)) == expected


def _message(*stops: KernelStop) -> str:
    decision = decide(PodRecord(stops), stops[-1].at)
    assert not isinstance(decision, Nothing)
    return decision.message


def test_an_event_names_the_process_and_what_to_do() -> None:
    assert _message(stop(0)) == (
        "process 4711 (nginx) does not load Rowen's library: its program is linked statically or uses musl, "
        "or LD_PRELOAD was taken from its environment; use programs that are linked dynamically with glibc 2.34 or "
        "newer, and leave LD_PRELOAD as it is; the kernel stopped the pod instead"
    )
    assert _message(stop(0), stop(1)).endswith("; the kernel had to stop the pod again within 10 minutes")


def test_an_arrival_is_not_accused() -> None:
    assert _message(stop(0, U, YOUNG), stop(1, U, YOUNG)).startswith(
        "process 4712 (sh) had just started and not loaded"
    )


def test_each_reason_says_something_of_its_own_that_fits_into_an_event() -> None:
    hostile = Process(2**31 - 1, "\n\x1b[31m" + "é" * 5000, open_seconds=9)
    messages = {_message(stop(0, reason, hostile)) for reason in Reason}
    assert len(messages) == len(Reason)
    for message in messages:
        assert message.startswith("process 2147483647 (??[31mé")
        assert message.isprintable()
        assert len(message.encode()) <= 1024


def test_a_process_that_is_not_known_is_not_made_up() -> None:
    assert _message(stop(0, O, None)).startswith("a process used CPU time while the device was needed")
