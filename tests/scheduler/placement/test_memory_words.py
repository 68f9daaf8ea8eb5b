"""What is told of memory: who takes it, and what can never be had."""

from dataclasses import replace

import pytest
from scheduler.builders import GIB, NOW, POLICY, device, job, node, outcome, placed, pod, run, world
from scheduler.placement.test_seats import MODEL, engine, rider, waits

from rowen.scheduler.device import DeviceView
from rowen.scheduler.history import History
from rowen.scheduler.model.rider import Rider
from rowen.scheduler.placement.memory_words import above_all_devices, memory_refusal, never_fits
from rowen.scheduler.serve import whatif
from rowen.scheduler.snapshot import JobView, NodeView

SMALL = device("a", memory=4 * GIB, online_memory=GIB)
"""Leaves 3 GiB."""
LARGE = device("b", memory=8 * GIB, online_memory=6 * GIB, service="team/chat")
"""Leaves 2 GiB."""
UNKNOWN = device("c", memory=6 * GIB, online_memory=None, service="")
"""Leaves nobody knows what."""


@pytest.mark.parametrize(
    ("memory", "left", "ending"),
    [
        (2, 1, "1.00Gi of 8.00Gi left on cpu0: service team/chat may take 6.00Gi, offline jobs have 1.00Gi"),
        (2, -1, "0.00Gi of 8.00Gi left on cpu0: service team/chat may take 6.00Gi, offline jobs have 3.00Gi"),
        (3, 2, "offline jobs have 0.00Gi; the service leaves too little, whichever jobs end"),
        (8, 2, "offline jobs have 0.00Gi; the service leaves too little, whichever jobs end"),
        (9, 2, "offline jobs have 0.00Gi; the device is too small"),
    ],
)  # fmt: skip
def test_a_refusal_says_who_takes_the_memory(memory: int, left: int, ending: str) -> None:
    told = memory_refusal(job("j", memory=memory * GIB), LARGE, left * GIB)
    assert told.startswith(f"memory 0: needs {memory}.00Gi, ")
    assert told.endswith(ending)


def test_a_device_without_a_service_names_the_pod() -> None:
    assert "the online pod may take 2.00Gi" in memory_refusal(job("j"), device("n", service=""), 0)


def test_a_service_that_may_take_more_than_the_device_leaves_nothing() -> None:
    full = device("n", online_memory=9 * GIB)
    told = memory_refusal(job("j"), full, full.room)
    assert "0.00Gi of 8.00Gi left on cpu0: service ns/chat may take 9.00Gi, offline jobs have 0.00Gi" in told


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        (3 * GIB, ""),
        (
            3 * GIB + 1,
            "no device has room for it, whichever jobs end: spec.memory is 3.00Gi, the most that a service leaves is "
            "3.00Gi of 4.00Gi on a/cpu0, where service ns/chat may take 1.00Gi",
        ),
        (9 * GIB, "it can never fit: spec.memory is 9.00Gi, the largest device, b/cpu0, has 8.00Gi"),
    ],
)
def test_what_never_fits_is_told_with_the_device_that_comes_closest(memory: int, told: str) -> None:
    assert never_fits(job("j", memory=memory), LARGE, SMALL, None) == told


@pytest.mark.parametrize(
    ("memory", "roomiest", "told"),
    [
        (3, SMALL, ""),
        (
            6, SMALL,
            "no device is known to have room for it, whichever jobs end: spec.memory is 6.00Gi, the most that a "
            "service leaves is 3.00Gi of 4.00Gi on a/cpu0, where service ns/chat may take 1.00Gi; "
            "c/cpu0 has 6.00Gi: what the online pod may take is not known",
        ),
        (
            7, SMALL,
            "no device has room for it, whichever jobs end: spec.memory is 7.00Gi, the most that a service leaves is "
            "3.00Gi of 4.00Gi on a/cpu0, where service ns/chat may take 1.00Gi",
        ),
        (7, None, ""),
        (9, None, "it can never fit: spec.memory is 9.00Gi, the largest device, b/cpu0, has 8.00Gi"),
    ],
)  # fmt: skip
def test_a_device_of_which_it_is_not_known_is_no_room_and_no_refusal(
    memory: int, roomiest: DeviceView | None, told: str
) -> None:
    assert never_fits(job("j", memory=memory * GIB), LARGE, roomiest, UNKNOWN) == told


def test_a_refusal_says_that_the_services_part_is_not_known() -> None:
    told = memory_refusal(job("j"), device("n", online_memory=None), -2 * GIB)
    assert told.endswith("left on cpu0: what service ns/chat may take is not known, offline jobs have 2.00Gi")


def without_engine(name: str, memory: int) -> NodeView:
    return node(name, device(name, memory=memory * GIB, online_memory=None, service="", attached=False))


@pytest.mark.parametrize(
    ("sizes", "taken", "told"),
    [
        ((4,), 6, "no device has room for it, whichever jobs end: spec.memory is 5.00Gi, the most that a service "
            "leaves is 2.00Gi of 8.00Gi on b/cpu0, where service ns/chat may take 6.00Gi"),
        ((4,), 9, "no device has room for it, whichever jobs end: spec.memory is 5.00Gi, the most that a service "
            "leaves is 0.00Gi of 8.00Gi on b/cpu0, where service ns/chat may take 9.00Gi"),
        ((5, 6), 6, "no device is known to have room for it, whichever jobs end: spec.memory is 5.00Gi, the most that "
            "a service leaves is 2.00Gi of 8.00Gi on b/cpu0, where service ns/chat may take 6.00Gi; "
            "m1/cpu0 has 6.00Gi: what the online pod may take is not known"),
        ((16,), 3, "no candidate holds: b/cpu0: node is cordoned"),
    ],
)  # fmt: skip
def test_a_device_without_an_engine_may_have_room_later(sizes: tuple[int, ...], taken: int, told: str) -> None:
    empty = [without_engine(f"m{at}", memory) for at, memory in enumerate(sizes)]
    known = node("b", device("b", online_memory=taken * GIB), schedulable=taken != 3)
    assert outcome(run(known, *empty, job("j", memory=5 * GIB)), "j").message == told


def test_devices_without_an_engine_alone_refuse_for_that() -> None:
    found = outcome(run(without_engine("m", 8), job("j", memory=5 * GIB)), "j")
    assert found.message == "no candidate holds: m/cpu0: idle 0.00: no online engine attached, so its gate is closed"


@pytest.mark.parametrize(
    ("asked", "largest", "told"),
    [
        (job("j", memory=9 * GIB), LARGE, ""),
        (job("j", memory=9 * GIB, pool=GIB), LARGE, ""),
        (job("j", memory=GIB, pool=7 * GIB), LARGE, ""),
        (job("j", memory=GIB, pool=8 * GIB), None, ""),
        (
            job("j", memory=GIB, pool=8 * GIB), LARGE,
            "; spec.memoryLimit 9.00Gi is above every device's memory: the largest device, b/cpu0, has 8.00Gi",
        ),
    ],
)  # fmt: skip
def test_a_limit_above_every_device_is_told(asked: JobView, largest: DeviceView | None, told: str) -> None:
    assert above_all_devices(asked, largest) == told


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        (2, "no candidate holds: a/cpu0: memory 0: needs 2.00Gi, 1.00Gi of 4.00Gi left on cpu0: "
            "service ns/chat may take 1.00Gi, offline jobs have 2.00Gi"),
        (4, "no device has room for it, whichever jobs end: spec.memory is 4.00Gi, the most that a service leaves is "
            "3.00Gi of 4.00Gi on a/cpu0, where service ns/chat may take 1.00Gi"),
        (9, "it can never fit: spec.memory is 9.00Gi, the largest device, b/cpu0, has 8.00Gi"),
    ],
)  # fmt: skip
def test_a_job_that_waits_is_told_apart_from_one_that_never_fits(memory: int, told: str) -> None:
    held = [pod(job("x", memory=2 * GIB), "a"), pod(job("y", memory=GIB), "b")]
    there = [node("a", SMALL, slots=4), node("b", LARGE, slots=4), *held]
    found = outcome(run(*there, job("j", memory=memory * GIB)), "j")
    # Devices that only wait for a report are not forgotten.
    silent = outcome(run(*there, node("c", device("c", memory=16 * GIB), reported=None), job("j", memory=9 * GIB)), "j")
    assert found.message == told
    assert silent.message.startswith("no candidate holds")


def test_a_limit_above_every_device_is_told_of_jobs_that_wait_and_that_are_placed() -> None:
    told = "; spec.memoryLimit 9.00Gi is above every device's memory: the largest device, n/cpu0, has 8.00Gi"
    elastic = job("j", memory=GIB, pool=8 * GIB)
    worlds = [
        [node("n"), elastic],
        [node("n"), placed(elastic, "n")],
        [node("n", slots=0), elastic],
        [node("n", device("n", online_memory=8 * GIB)), elastic],
    ]
    messages = [outcome(run(*there), "j").message for there in worlds]
    assert [message.endswith(told) for message in messages] == [True] * 4
    assert [message.startswith("placed on n/cpu0") for message in messages] == [True, True, False, False]


def test_a_job_as_large_as_the_largest_device_waits_for_what_its_service_leaves() -> None:
    found = outcome(run(node("n"), job("j", memory=8 * GIB)), "j")
    assert found.message.startswith("no device has room for it, whichever jobs end: spec.memory is 8.00Gi")


NEVER = "it can never fit: spec.memory is 64.00Gi, the largest device, a/cpu0, has 8.00Gi"


@pytest.mark.parametrize(
    ("there", "view", "never"),
    [
        (engine("a", seats=0), rider("j"), False),
        (engine("a", ended="out of memory"), rider("j"), False),
        (engine("a", model="models/other"), rider("j"), True),
        (engine("a", namespace="theirs"), rider("j"), True),
        (device("a"), rider("j"), True),
        (engine("a", seats=0), job("j"), True),
        (engine("a", seats=0), rider("j", "lora.dropout above 0"), True),
        (engine("a", seats=0, args=("--dtype=bfloat16",)), rider("j", rider=Rider(MODEL, precision="Float32")), True),
        (
            engine("a", seats=0),
            replace(rider("j"), status=rider("j").status.model_copy(update={"ride_refused": "other weights"})),
            True,
        ),
    ],
)
def test_what_never_fits_on_a_device_may_have_a_seat_later(there: DeviceView, view: JobView, never: bool) -> None:
    """As long as an engine could compute it: a seat takes no memory of the device."""
    view = replace(view, memory=64 * GIB)
    told = waits(run(node("a", there), view), "j")
    assert told.startswith(NEVER if never else "no candidate holds: a/cpu0: memory 0: needs 64.00Gi")
    asked = whatif.predict(world(node("a", there)), History(), view, NOW, POLICY)
    assert asked.refusal == told


def test_one_engine_that_could_compute_it_is_enough() -> None:
    there = [engine("a", seats=0, args=("--dtype=bfloat16",)), engine("a", "cpu1", seats=0, args=("--dtype=float32",))]
    view = rider("j", rider=Rider(MODEL, precision="Float32"), memory=64 * GIB)
    assert waits(run(node("a", *there), view), "j").startswith("no candidate holds")
