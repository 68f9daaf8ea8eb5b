"""What a step costs that is followed."""

from typing import Any

import pytest
from predicting import following
from predicting.following import step_microseconds
from predicting.judging import COLD, from_cold
from predicting.measured import Measured

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.predictor import Predictor
from rowen.runtime.vllm.riding.conductor import Conductor


def test_each_step_has_all_requests_and_is_followed_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Conductor] = []

    class Watched(Conductor):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(following, "Conductor", Watched)
    assert step_microseconds(Predictor(), 16, 50) > 0
    (conductor,) = made
    assert conductor._ended is None
    # From the first to the last one, none of them late.
    running = conductor._next_tokens._running
    assert {each.tokens for each in running.values()} == {51}
    assert len(running) == 16
    assert conductor._planner.token_pace.due_in > 0


def test_what_comes_first_is_predicted_by_the_default() -> None:
    step = Measured(Load(4, 400), 0.5, 0.5)
    found = {name: value for name, (value, _) in from_cold([step] * COLD[-1][1]).items()}
    # The first one is what the default says.
    assert found["cold_1_8_error_mean"] >= abs(Predictor().seconds(step.load) / 0.5 - 1) / 8
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert found["cold_9_32_error_mean"] < 0.02
    assert found["cold_129_512_error_mean"] < 0.01
