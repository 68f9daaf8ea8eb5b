"""Why an engine ended, from what the kubelet says of its container."""

from typing import Any

import pytest
from operator_builders import NOW

from rowen.kube.timestamps import rfc3339
from rowen.operator.pods.container_ends import Ends, ends_of, telling_line

Wire = dict[str, Any]

OOM: Wire = {"exitCode": 137, "reason": "OOMKilled"}
RUNNING: Wire = {"running": {"startedAt": rfc3339(NOW)}}
BACK_OFF: Wire = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}


def entry(state: Wire, restarts: int, last: Wire | None = None) -> Wire:
    return {
        "name": "engine",
        "state": state,
        "restartCount": restarts,
        "lastState": {"terminated": last} if last else {},
    }


def unready(since: float) -> Wire:
    return {"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(since)}


def test_no_step_of_the_kubelets_cycle_hides_an_end_or_counts_it_twice() -> None:
    """As a kubelet shows two ends of a container whose pod was never ready."""
    steps = [
        (entry(RUNNING, 0), None),
        (entry({"terminated": OOM}, 0), 1),
        (entry(RUNNING, 1, OOM), 1),
        (entry({"terminated": OOM}, 1, OOM), 2),
        (entry(BACK_OFF, 1, OOM), 2),
        (entry(RUNNING, 2, OOM), 2),
    ]
    for status, count in steps:
        ends = ends_of(status, unready(NOW - 60))
        assert (ends and ends.count) == count
        assert ends is None or (ends.reason, ends.exit_code) == ("OOMKilled", 137)


@pytest.mark.parametrize(
    ("ready", "told"),
    [
        # It ended, and was started again a second later.
        (unready(NOW - 1), True),
        (unready(NOW), True),
        (unready(NOW + 1), False),
        ({}, True),
        # It is ready, or was ready since: what it lacks now is not what it ended with.
        ({"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(NOW + 30)}, False),
        (unready(NOW + 600), False),
    ],
)
def test_an_engine_that_has_recovered_is_in_order(ready: Wire, told: bool) -> None:
    assert (ends_of(entry(RUNNING, 1, OOM), ready) is not None) is told


def test_an_engine_that_ends_again_after_it_was_ready_is_told() -> None:
    """The pod turns unready when the container has ended, after this run's start."""
    assert ends_of(entry({"terminated": OOM}, 4), unready(NOW + 600)) is not None


def test_a_status_that_leaves_things_out_is_a_first_end_without_words() -> None:
    bare = {"name": "engine", "state": {"terminated": {"exitCode": 3}}}
    assert ends_of(bare, {}) == Ends("engine", 1, "Error", 3, "")
    assert ends_of({"name": "engine"}, {}) is None
    assert ends_of({"name": "engine", "state": RUNNING, "lastState": {"terminated": {"message": "x"}}}, {}) == Ends(
        "engine", 0, "Error", 0, "x"
    )


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (Ends("engine", 1, "Completed", 0, ""), "its engine ended once with Completed (exit code 0)"),
        (
            Ends("engine", 3, "Error", 1, "ValueError: x"),
            "its engine ended 3 times, the last time with Error (exit code 1): ValueError: x",
        ),
    ],
)
def test_ends_in_words(ends: Ends, words: str) -> None:
    assert ends.in_words("engine") == words


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("", ""),
        ("a request of 8192 tokens takes 1Gi of cache: raise memoryLimit", None),
        ("\n one \n two \n\n", "two"),
        ("server.py: error: unrecognized arguments: --x", None),
        # vLLM's end: the traceback's last line, and what Python says after it.
        (
            '  File "core.py", line 7, in run\n    raise ValueError(x)\n(EngineCore pid=9) ValueError: no room\n'
            "resource_tracker.py:254: UserWarning: leaked semaphores\n  warnings.warn('there appear')\n",
            "(EngineCore pid=9) ValueError: no room",
        ),
        ("\x1b[31mRuntimeError\x1b[0m: \x1b[1;4mred\x07\u202e\tend", "RuntimeError: red end"),
        ("10%\r20%\rkilled", "killed"),
        ("x" * 256, None),
        ("x" * 257, "x" * 255 + "…"),
    ],
)
def test_the_telling_line(message: str, line: str | None) -> None:
    assert telling_line(message) == (message if line is None else line)
