"""A pod whose programs do not stop by themselves is stopped by the kernel, and evicted when it happens again."""

from typing import Any

from kit import manifests
from kit.kubectl import apply, delete, items, wait_condition, wait_until
from kit.traffic import Background
from kit.world import World

# SIGURG is 23, rt_sigaction 13: its handler is taken away behind the library's back, to ignore the signal.
ROGUE = (
    "import ctypes\n"
    "action = (ctypes.c_uint64 * 4)(1, 0, 0, 0)\n"
    "assert ctypes.CDLL(None).syscall(13, 23, action, None, 8) == 0\n"
    "while True:\n"
    "    pass\n"
)


def _rogue(world: World) -> dict[str, Any]:
    job = manifests.spinning("rogue", world.namespace, world.runtime_image, backoffLimit=0)
    job["spec"]["template"]["spec"]["containers"][0]["command"] = ["python", "-c", ROGUE]
    return job


def _told(world: World) -> dict[str, str]:
    """What the events of the job's pods say, by reason."""
    events = items("events", world.namespace)
    return {
        event["reason"]: event["message"]
        for event in events
        if event["involvedObject"]["kind"] == "Pod" and event["involvedObject"]["name"].startswith("rogue")
    }


def test_a_program_that_takes_the_handler_away_is_stopped_and_evicted(world: World) -> None:
    apply(_rogue(world))
    try:
        wait_condition("ojob", "rogue", world.namespace, "Running", timeout_seconds=180)
        with Background(world.url, world.service) as traffic:
            finished = wait_condition("ojob", "rogue", world.namespace, "Finished", timeout_seconds=180)
        assert finished["reason"] != "Completed"
        assert traffic.errors == []
        told = wait_until(
            lambda: told if "EvictedHandlerReplaced" in (told := _told(world)) else None, "it is told", 30
        )
        assert "has replaced the signal handler" in told["EvictedHandlerReplaced"]
        assert "leave SIGURG alone" in told["EvictedHandlerReplaced"]
    finally:
        delete("ojob", "rogue", world.namespace)
