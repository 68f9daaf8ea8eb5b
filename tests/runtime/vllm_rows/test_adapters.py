"""How many adapters a step holds."""

from rowen.runtime.vllm.rows.adapters import AdapterRoom


def test_rows_have_what_online_requests_leave() -> None:
    room = AdapterRoom(2, {7})
    assert room.takes(None)
    assert room.takes(7)
    assert room.takes(8)
    assert not room.takes(9)
    assert room.takes(8)
    assert room.takes(None)


def test_without_adapters_all_others_have_room() -> None:
    assert AdapterRoom(0, set()).takes(None)
