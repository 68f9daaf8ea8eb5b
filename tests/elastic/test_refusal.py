"""What an engine says that cannot start."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rowen.runtime.vllm.elastic.geometry import TooLittleError
from rowen.runtime.vllm.elastic.refusal import told


@pytest.mark.parametrize(("error", "left"), [(TooLittleError("too little"), "too little"), (KeyError("x"), "")])
def test_the_kubelet_hears_what_the_user_can_mend(error: Exception, left: str, tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    with capture_logs(), pytest.raises(type(error)), told(log):
        raise error
    assert log.read_text() == left


def test_words_that_cannot_be_left_do_not_replace_the_error(tmp_path: Path) -> None:
    with capture_logs(), pytest.raises(TooLittleError), told(tmp_path):
        raise TooLittleError("too little")


def test_outside_a_container_nothing_is_left(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    with capture_logs(), pytest.raises(TooLittleError), told(log):
        raise TooLittleError("too little")
    assert not log.exists()
