"""What a device is by its node's report."""

import pytest
from scheduler.builders import GIB, device

from rowen.scheduler.device import FIGURES, DeviceView, TenantView


@pytest.mark.parametrize(
    ("fields", "room", "closed"),
    [
        ({}, 6 * GIB, ""),
        ({"online_memory": 0}, 8 * GIB, ""),
        ({"online_memory": 9 * GIB}, -GIB, ""),
        ({"online_memory": None}, 0, "memory 0: the online pod's memory is not known (it declares none)"),
        ({"attached": False}, 6 * GIB, "idle 0.00: no online engine attached, so its gate is closed"),
        ({"refusal": "its owner says no", "attached": False}, 6 * GIB, "its owner says no"),
    ],
)
def test_a_device_offers_what_is_known_to_be_left(fields: dict[str, object], room: int, closed: str) -> None:
    view = device("n", **fields)
    assert (view.room, view.closed) == (room, closed)


def test_a_device_of_which_only_its_size_is_told_is_open_and_all_its_memory_is_left() -> None:
    view = DeviceView("n", "g0", "gpu", GIB, 0.5)
    assert (view.key, view.room, view.closed, view.deviation, view.seen_idle) == (("n", "g0"), GIB, "", 0.0, None)


@pytest.mark.parametrize(
    ("available", "outline"),
    [((), (0, 0, 0, 0)), ((1, 2, 3, 4, 5, 6, 7, 8), (2, 4, 6, 8)), ((1, 2, 3, 4), (1, 2, 3, 4)), ((1, 2, 9), (9,) * 4)],
)
def test_what_a_search_looks_at_is_packed(available: tuple[int, ...], outline: tuple[int, ...]) -> None:
    """Each part of the time with the most that was lent in it; with that of all where they are no equal parts."""
    view = device("n", idle=0.75, deviation=0.5, available=available)
    expected = (0.75, 0.5, 8 * GIB, 6 * GIB, 1, 1, len(available), *outline)
    assert FIGURES.unpack(view.pack()) == expected
    closed = device("n", idle=0.75, online_memory=None, attached=False)
    assert FIGURES.unpack(closed.pack()) == (0.75, 0, 8 * GIB, 0, 0, 0, 0, 0, 0, 0, 0)


def test_a_tenant_that_has_just_come_has_made_nothing_and_takes_its_place() -> None:
    view = TenantView("ns", "p")
    assert (view.tokens, view.granted, view.attached) == (0, 0.0, True)
