"""What may happen to riders, and what their engine answers meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from riding_engine.bench import COMMON_TOKENS, Answer, Bench
from riding_engine.tasks import alone, furthest, task
from runtime.recorder import Recorder

from rowen.crds.ride.messages import StepSums
from rowen.runtime.coserve import lease
from rowen.runtime.coserve.learner import Window
from rowen.runtime.coserve.planning.planner import Plan
from rowen.runtime.coserve.task import Adapter, Result, Sequence, Target, Task, TaskUnsuitable
from rowen.runtime.vllm.riding.deferring import DeferringScheduler


@dataclass
class Case:
    bench: Bench
    model: Path
    expected: list[Answer]
    """Of the engine while nothing rides."""

    def task(self, number: int, lengths: tuple[int, ...] = (70, 23), gradients: bool = True) -> Task:
        return task(self.model, number, lengths, gradients)

    @property
    def sums(self) -> StepSums:
        """As they are now; the seat is told once a second."""
        return self.bench.conductor._tally.sums()

    def depart(self, *guests: int) -> None:
        for guest in guests:
            self.bench.guests.depart(guest)
        self.bench.answers(1)
        self.bench.guests.answers.clear()


def riders_get_on_and_nobody_notices(case: Case) -> None:
    guests = [case.bench.guests.arrive(case.task(number, (200, 120, 80))) for number in range(3)]
    assert case.bench.answers() == case.expected
    case.bench.conductor.idle(lambda: False)
    sums = case.bench.guests.sums
    assert sums.forward_tokens > 100
    assert 0 < sums.riding_steps <= sums.steps
    case.depart(*guests)


def results_are_those_of_the_learner_alone(case: Case) -> None:
    tasks = [case.task(10), case.task(11, (33,)), case.task(12, (5, 90), gradients=False)]
    for result, each in zip(case.bench.results(tasks), tasks, strict=True):
        _check(case, result, each)


def adapters_of_all_kinds_ride_at_once(case: Case) -> None:
    tasks = [
        task(case.model, 13, (70, 23), rank=4, targets=(Target.QUERY, Target.VALUE)),
        task(case.model, 14, (60, 33), rank=16, targets=(Target.GATE, Target.UP, Target.DOWN)),
        task(case.model, 15, (90,), rank=64),
    ]
    before, planner = case.sums, case.bench.conductor._planner
    plan = planner.plan

    def planned(*arguments: Any) -> Plan:
        found = plan(*arguments)
        return replace(found, ride_tokens=min(20, found.ride_tokens))

    guests = [case.bench.guests.arrive(each) for each in tasks]
    with pytest.MonkeyPatch.context() as patch:
        # Each has many windows, and they take turns.
        patch.setattr(planner, "plan", planned)
        assert case.bench.answers() == case.expected
        found = case.bench.results_of(guests)
    tokens, after = sum(sum(each.lengths) for each in tasks), case.sums
    assert after.forward_tokens - before.forward_tokens == tokens
    assert after.backward_tokens - before.backward_tokens == tokens
    assert after.solo_tokens == before.solo_tokens
    for result, each in zip(found, tasks, strict=True):
        _check(case, result, each)


def _check(case: Case, result: Result, work: Task) -> None:
    """It is that of the learner alone."""
    reference = alone(case.model, work)
    assert (result.number, result.learned_tokens) == (reference.number, reference.learned_tokens)
    assert result.correct_tokens == reference.correct_tokens
    assert abs(result.loss_sum - reference.loss_sum) < 1e-5 * reference.loss_sum
    if work.gradients:
        assert result.gradients.keys() == work.adapter.pairs.keys()
        assert furthest(result, reference) < 2e-5
    else:
        assert not result.gradients


def prompts_that_the_cache_has_are_answered_the_same(case: Case) -> None:
    expected = case.bench.alike()
    assert [cached for _, cached in expected] == [0, 0, *[COMMON_TOKENS] * 4]
    guest, before = case.bench.guests.arrive(case.task(16, (250,) * 4)), case.sums
    with pytest.MonkeyPatch.context() as patch:
        # In each step, also in those that fill the cache.
        patch.setattr(case.bench.conductor._planner, "plan", lambda *_: Plan(8, 0.0, "a window rides"))
        patch.setattr(case.bench.conductor._planner, "fitting", lambda load: load.ride_tokens)
        assert case.bench.alike() == expected
    after = case.sums
    assert after.riding_steps - before.riding_steps == after.steps - before.steps > 0
    case.depart(guest)


def prompts_are_not_deferred_unasked(case: Case) -> None:
    assert not isinstance(case.bench.core.scheduler, DeferringScheduler)


def a_guest_that_leaves_is_forgotten(case: Case) -> None:
    guest = case.bench.guests.arrive(case.task(20, (200,) * 12))
    stays = case.bench.guests.arrive(case.task(21, (40,)))
    for number in range(3):
        case.bench.add(number, 30)
    for _ in range(6):
        case.bench.engine.step()
    case.bench.guests.depart(guest)
    while case.bench.engine.has_unfinished_requests():
        case.bench.engine.step()
    assert case.bench.answers() == case.expected
    case.bench.conductor.idle(lambda: stays not in case.bench.guests.answers)
    assert set(case.bench.guests.answers) == {stays}
    case.bench.guests.answers.clear()


def an_idle_engine_works_it_all_through(case: Case) -> None:
    before = case.bench.guests.sums
    work = case.task(30)
    guest = case.bench.guests.arrive(work)
    case.bench.conductor.idle(lambda: True)
    result = case.bench.guests.answers.pop(guest)
    assert not isinstance(result, TaskUnsuitable)
    reference = alone(case.model, work)
    assert abs(result.loss_sum - reference.loss_sum) < 1e-5 * reference.loss_sum
    assert furthest(result, reference) < 2e-5
    sums = case.bench.guests.sums
    assert sums.solo_tokens - before.solo_tokens == 93
    assert sums.backward_tokens - before.backward_tokens == 93
    assert sums.steps == before.steps


def riders_stand_still_while_the_lease_has_run_out(case: Case) -> None:
    device, work = Recorder(), case.task(40, (200, 120, 80))
    guest = case.bench.guests.arrive(work)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease, "online", lambda: device)
        turns = iter([True])
        case.bench.conductor.idle(lambda: next(turns, False))
        before = case.bench.guests.sums
        device.lease = False
        assert case.bench.answers() == case.expected
        case.bench.conductor.idle(lambda: True)
        after = case.bench.guests.sums
        assert _ridden(after) == _ridden(before)
        assert after.steps > before.steps
        assert guest not in case.bench.guests.answers
        device.lease = True
        case.bench.conductor.idle(lambda: True)
    result = case.bench.guests.answers.pop(guest)
    assert not isinstance(result, TaskUnsuitable)
    assert furthest(result, alone(case.model, work)) < 2e-5


def _ridden(sums: StepSums) -> tuple[int, int, int]:
    return sums.forward_tokens, sums.solo_tokens, sums.backward_tokens


def a_task_that_does_not_fit_is_refused(case: Case) -> None:
    host = case.bench.host
    assert host is not None
    host.check(case.task(1))
    wrong = Sequence(torch.zeros(10**6, dtype=torch.int64), torch.zeros(10**6, dtype=torch.int64))
    with pytest.raises(TaskUnsuitable, match="1000000 tokens"):
        host.check(Task(1, Adapter(1.0, {}), (wrong,), 1.0, True))


def a_learner_that_fails_ends_the_riding_and_not_the_step(case: Case) -> None:
    bench = case.bench
    learner = bench.conductor._learner
    assert learner is not None
    window_of = learner.window

    def failing(most_tokens: int) -> Window | None:
        window = window_of(most_tokens)
        if window is not None:
            leave, left = window.leave, []

            def fails(*args: Any) -> None:
                left.append(args)
                if len(left) == 6:
                    raise ZeroDivisionError
                leave(*args)

            window.leave = fails  # type: ignore[method-assign]
        return window

    learner.window = failing  # type: ignore[method-assign]
    guest = bench.guests.arrive(case.task(50))
    assert bench.answers() == case.expected
    assert bench.guests.ended == "riding failed in the engine: ZeroDivisionError"
    # The seat lets the guests go.
    assert guest not in bench.guests.answers
    bench.guests.arrive(case.task(51))
    assert bench.answers() == case.expected
    bench.conductor.idle(lambda: True)
    assert not bench.guests.answers
    assert not [name for name, module in bench.worker.get_model().named_modules() if _is_hooked(module)]


def _is_hooked(module: object) -> bool:
    return "apply" in vars(getattr(module, "quant_method", None) or SimpleNamespace())


SCENARIOS: dict[str, Callable[[Case], None]] = {
    each.__name__: each
    for each in (
        riders_get_on_and_nobody_notices,
        results_are_those_of_the_learner_alone,
        adapters_of_all_kinds_ride_at_once,
        prompts_that_the_cache_has_are_answered_the_same,
        prompts_are_not_deferred_unasked,
        a_guest_that_leaves_is_forgotten,
        an_idle_engine_works_it_all_through,
        riders_stand_still_while_the_lease_has_run_out,
        a_task_that_does_not_fit_is_refused,
    )
}
"""One after the other."""
LAST = a_learner_that_fails_ends_the_riding_and_not_the_step
"""Nothing rides in the engine afterwards."""
