"""What the agent looks at of a pod's processes."""

import pytest

from rowen.node_agent.attach import suspects


def test_one_look_is_at_the_oldest_of_very_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(suspects, "sight", looked.append)
    suspects.Suspects().look(set(range(1, 20_000)), open_seconds=1.0)
    assert looked == list(range(1, 129))
