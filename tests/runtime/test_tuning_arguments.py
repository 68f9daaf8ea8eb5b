"""The API's arguments are the trainer's."""

from pathlib import Path

import pytest

from rowen.crds.job.fine_tune import Learning
from rowen.crds.job.trainer_arguments import TrainerArguments
from rowen.runtime.tuning import generate
from rowen.runtime.tuning.training.settings import trainer_settings


def test_they_are_written_down_as_the_trainer_has_them() -> None:
    assert generate.TARGET.read_text() == generate.text(), "run python -m rowen.runtime.tuning.generate"


VALUES = [(name, value) for name in generate.PASSED_ON for value in generate.VALUES.get(name, (0.5,))]


@pytest.mark.parametrize(("name", "value"), VALUES)
def test_each_reaches_the_trainer(name: str, value: object, tmp_path: Path) -> None:
    learning = Learning(arguments=TrainerArguments.model_validate({name: value}))
    settings = trainer_settings(learning, tmp_path, 10, recomputes=False)
    assert getattr(settings, name) == value
