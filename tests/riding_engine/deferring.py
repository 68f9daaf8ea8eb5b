"""What becomes of prompts that wait for one another in a real engine, and runs it all: `MODEL ADAPTER`."""

import contextlib
import inspect
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from riding_engine.bench import STEPS
from riding_engine.deferring_engine import ROW, Case

from rowen.runtime.coserve.planning.deferral import Waiting


def two_prompts_in_a_row_are_computed_in_one_step(case: Case) -> None:
    case.decode()
    rode = case.bench.conductor._tally.sums().forward_tokens
    case.add("first")
    assert case.turn(3) == [{"decoding": 1}] * 3
    case.add("second")
    assert case.turn(3) == [{"decoding": 1}] * 3
    # Nothing but them keeps riders from the steps.
    assert case.bench.conductor._tally.sums().forward_tokens > rode
    case.later()
    assert case.turn() == [{"decoding": 1, "first": 14, "second": 21}]
    case.check()
    assert set(case.answers) == {"decoding", "first", "second"}


def without_deferral_each_has_a_step(case: Case) -> None:
    case.scheduler._deferral = None
    case.decode()
    case.add("first")
    assert case.turn() == [{"decoding": 1, "first": 14}]
    case.add("second")
    assert case.turn() == [{"decoding": 1, "first": 1, "second": 21}]
    case.check()


def as_many_as_fill_a_step_wait_no_longer(case: Case) -> None:
    case.decode()
    case.add("first")
    assert case.turn(2) == [{"decoding": 1}] * 2
    case.add("large")
    assert case.turn() == [{"decoding": 1, "first": 14, "large": 33}]
    # What is left of it is computed anyway: who comes now goes with it.
    case.add("second")
    assert case.turn() == [{"decoding": 1, "first": 1, "large": 7, "second": 21}]
    case.check()


def nobody_waits_while_nothing_rides(case: Case) -> None:
    case.add("decoding")
    case.turn(3)
    case.add("first")
    assert case.turn() == [{"decoding": 1, "first": 14}]
    case.check()


def with_nothing_else_to_compute_fine_tuning_has_the_engine(case: Case) -> None:
    case.ride()
    case.begin_riding()
    before = case.bench.conductor._tally.sums()
    case.add("first")
    assert case.turn(2) == [{}] * 2
    after = case.bench.conductor._tally.sums()
    assert after.riding_seconds > before.riding_seconds
    case.later()
    assert case.turn() == [{"first": 14}]
    case.check()


def once_fine_tuning_is_through_nobody_waits(case: Case) -> None:
    guest = case.ride((200, 200))
    case.begin_riding()
    case.add("first")
    assert case.turn() == [{}]
    for _ in range(STEPS):
        if case.turn() != [{}]:
            break
    assert guest in case.bench.guests.answers
    assert case.steps[-1] == {"first": 14}
    case.check()


def who_leaves_while_held_is_gone(case: Case) -> None:
    case.decode()
    case.add("first")
    case.add("second")
    case.turn(2)
    case.bench.engine.abort_request(["first"])
    case.turn()
    assert len(case.scheduler._came) == 1
    case.later()
    assert case.turn() == [{"decoding": 1, "second": 21}]
    case.check()
    assert set(case.answers) == {"decoding", "second"}


def all_that_wait_are_unfinished_and_can_be_paused(case: Case) -> None:
    case.decode()
    case.add("first")
    case.turn()
    assert case.scheduler.get_request_counts() == (1, 1)
    assert case.scheduler.get_num_unfinished_requests() == 2
    case.bench.core.pause_scheduler("keep", clear_cache=False)
    assert not case.scheduler.has_unfinished_requests()
    assert case.turn() in ([], [{}])
    case.bench.core.resume_scheduler()
    assert case.turn() == [{"decoding": 1}]
    case.later()
    assert case.turn() == [{"decoding": 1, "first": 14}]
    case.check()


def sleep_ends_them(case: Case) -> None:
    case.decode()
    case.add("first")
    case.turn()
    case.bench.core.pause_scheduler("abort", clear_cache=False)
    assert not case.scheduler.requests
    assert not case.scheduler._came
    case.bench.core.resume_scheduler()
    case.bench.engine.abort_request(["first", "decoding"])
    case.check()


def who_was_preempted_goes_on_before_them_and_at_once(case: Case) -> None:
    case.decode()
    case.add("first")
    case.turn()
    manager = case.scheduler.kv_cache_manager
    allocate = manager.allocate_slots
    # In a step from which they are held back no block is left.
    manager.allocate_slots = lambda *_, **__: None
    assert case.turn() == [{}]
    manager.allocate_slots = allocate
    assert [each.request_id.rpartition("-")[0] for each in case.scheduler.waiting] == ["decoding", "first"]
    (step,) = case.turn()
    assert set(step) == {"decoding", "first"}
    case.check()


def batch_rows_go_on_beside_them(case: Case) -> None:
    case.decode()
    case.add(ROW)
    case.turn(2)
    assert case.steps[-1] == {"decoding": 1, ROW: 1}
    case.add("first")
    assert case.turn(2) == [{"decoding": 1, ROW: 1}] * 2
    case.later()
    assert case.turn()[0]["first"] == 14
    case.check()


def no_row_begins_before_them(case: Case) -> None:
    case.decode()
    case.add("first")
    case.turn()
    case.add(ROW)
    assert case.turn(2) == [{"decoding": 1}] * 2
    case.later()
    assert case.turn()[0]["first"] == 14
    case.check()
    assert ROW in case.answers


def a_policy_that_fails_holds_nobody(case: Case) -> None:
    def fails(_: Waiting) -> None:
        raise ZeroDivisionError

    case.decode()
    case.add("first")
    case.turn()
    case.deferral.decide = fails
    assert case.turn() == [{"decoding": 1, "first": 14}]
    del case.deferral.decide
    case.add("second")
    assert "second" in case.turn()[0]
    case.check()


def a_step_that_fails_loses_nobody(case: Case) -> None:
    case.decode()
    case.add("first")
    case.turn()
    manager = case.scheduler.kv_cache_manager
    allocate = manager.allocate_slots

    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    manager.allocate_slots = fails
    with contextlib.suppress(ZeroDivisionError):
        case.turn()
    manager.allocate_slots = allocate
    assert len(case.scheduler.waiting) == 1
    case.later()
    case.check()


def who_waits_when_riding_ends_is_computed(case: Case) -> None:
    """The last one: nothing rides in the engine afterwards."""
    case.decode()
    case.add("first")
    assert case.turn() == [{"decoding": 1}]
    case.bench.conductor.end("it is time")
    assert case.turn() == [{"decoding": 1, "first": 14}]
    case.check()


SCENARIOS: dict[str, Callable[[Case], None]] = {
    name: function
    for name, function in vars().copy().items()
    if inspect.isfunction(function) and list(inspect.signature(function).parameters) == ["case"]
}
"""In the order in which they stand here."""


def main() -> None:
    case = Case(Path(sys.argv[1]), Path(sys.argv[2]))
    results: dict[str, str | None] = {}
    for name, scenario in SCENARIOS.items():
        try:
            scenario(case)
            results[name] = None
            case.forget()
        except Exception:
            results[name] = traceback.format_exc(limit=-4)
            # What is left of it would be in the way of the next.
            break
    print(json.dumps(results))


if __name__ == "__main__":
    main()
