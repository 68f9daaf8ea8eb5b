"""An engine for some minutes, step by step, with noise, stalls and a machine that changes."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import pytest
from coserve_planning.machines import Guest, part_seconds, riding, step_seconds, terms
from coserve_planning.requests import Requests

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.planner import TOO_DEAR, TOO_LONG, Planner
from rowen.runtime.coserve.planning.predictor import Predictor

STEPS = 1600
Machine = Callable[[int], float]
"""By step, how much slower than usual the machine is."""


@dataclass
class Outcome:
    """What requests and riders got."""

    tpots: list[tuple[int, float]]
    """Of the requests that have ended, with the step in which they did."""
    of_request: dict[str, float] = field(default_factory=dict)
    """The same."""
    tokens: int = 0
    """That rode."""
    part_seconds: float = 0.0
    windows: list[tuple[int, int, int, float]] = field(default_factory=list)
    """Of each the step, whose it was, its tokens, and what the step took over what it might."""
    parts: list[tuple[int, int, int, float]] = field(default_factory=list)
    """The same."""

    def late(self, bound: float, since: int = 0) -> float:
        """Fraction of those that ended after that step."""
        told = [tpot for step, tpot in self.tpots if step >= since]
        return sum(tpot > bound for tpot in told) / len(told)


def served(
    machine: Machine,
    percentile: float,
    steps: int = STEPS,
    guests: Sequence[Guest] = (Guest(),),
    tpot: float = 0.05,
    prompt_tokens: int = 0,
    rate: float | None = None,
    riders: bool = True,
) -> Outcome:
    """Windows and parts of all guests wait at all times; prompts are computed beside requests that decode."""
    planner, draw = Planner(terms(tpot=tpot, percentile=percentile), Predictor()), random.Random(1)
    outcome, now, ended = Outcome([]), 0.0, list[str]()
    requests = Requests(random.Random(2), rate, planner.token_pace)
    # Whose window is next, and whose part.
    window, part = 0, 0
    for step in range(steps):
        now, come = requests.come(now)
        prompts = prompt_tokens * come
        rows = len(requests.tokens)
        load = Load(rows, rows * 200, prompts, prompts * 32)
        found = requests.followed.begin(ended, requests.tokens.items())
        for name, (seconds, rider_seconds) in zip(ended, found, strict=True):
            outcome.tpots.append((step, seconds))
            outcome.of_request[name] = seconds
            planner.observe_tpot(seconds, rider_seconds)
        pace = planner.token_pace
        pace.due_in = requests.followed.due_in(now)
        least_seconds = planner.predictor.least_part_seconds("Backward", part)
        plan = planner.plan(load, 1000 if riders else 0, riders, least_seconds, window, part)
        guest = guests[window]
        ridden, bound = riding(load, plan.ride_tokens, guest.token_context, window), planner.bound(load)
        alone = step_seconds(load)
        slowness = machine(step) * max(0.8, draw.gauss(1, 0.04))
        seconds = slowness * (alone + guest.ride_cost * (step_seconds(ridden) - alone))
        if plan.ride_tokens:
            outcome.windows.append((step, window, plan.ride_tokens, seconds / max(0.001, bound)))
        if plan.ride_tokens or plan is TOO_DEAR:
            window = (window + 1) % len(guests)
        part = (part + (plan is TOO_LONG)) % len(guests)
        now += seconds
        planner.observe(ridden, seconds)
        ended = requests.step(now, planner.rider_seconds)
        left = plan.part_seconds
        while left > 0:
            guest = guests[part]
            tokens = min(64, planner.part_tokens("Backward", left, part))
            took = slowness * guest.part_cost * part_seconds(tokens)
            planner.observe_part("Backward", tokens, tokens * guest.token_context, took, part)
            outcome.part_seconds += took
            outcome.parts.append((step, part, tokens, took / left))
            now, left, part = now + took, left - max(took, 0.0005), (part + 1) % len(guests)
            if planner.predictor.least_part_seconds("Backward", part) > left:
                break
        outcome.tokens += plan.ride_tokens
    return outcome


@pytest.mark.parametrize("percentile", [90.0, 99.0])
def test_the_percentile_is_kept_and_riders_get_on(percentile: float) -> None:
    found = served(lambda _: 1.0, percentile)
    assert found.late(0.05, since=320) <= 1 - percentile / 100 + 0.005
    # Every other step has a window of some 50 tokens, and the others parts of some 30 ms.
    assert found.tokens > STEPS * 0.5 * 35
    assert found.part_seconds > STEPS * 0.5 * 0.025


def test_stalls_cost_riders_little() -> None:
    calm = served(lambda _: 1.0, 90.0)
    stalled = served(lambda step: 8.0 if step % 300 == 0 else 1.0, 90.0)
    assert stalled.tokens > 0.7 * calm.tokens


def test_a_machine_that_becomes_slower_is_followed_within_a_few_steps() -> None:
    found = served(lambda step: 1.6 if step >= 800 else 1.0, 90.0)
    assert found.late(0.05, since=320) <= 0.11
    # What runs when it changes makes up for it.
    assert sum(tpot > 0.05 for step, tpot in found.tpots if 800 <= step < 960) <= 1
    assert found.tokens > STEPS * 0.5 * 16


def test_a_machine_that_becomes_faster_is_used() -> None:
    slow, faster = (served(machine, 90.0) for machine in (lambda _: 1.6, lambda step: 1.0 if step >= 400 else 1.6))
    assert faster.tokens > 1.5 * slow.tokens


def test_a_machine_that_drifts_is_followed() -> None:
    found = served(lambda step: 1 + 0.5 * step / STEPS, 95.0)
    assert found.late(0.05, since=320) <= 0.06


def test_riders_that_cost_twice_what_is_usual_get_less_and_make_nothing_late() -> None:
    dear = served(lambda _: 1.0, 95.0, guests=[Guest(ride_cost=2.0)])
    assert dear.late(0.05, since=320) <= 0.06
    assert dear.tokens > STEPS * 0.5 * 15


def test_an_engine_without_time_to_spare_is_left_alone() -> None:
    found = served(lambda _: 4.0, 99.0, steps=800)
    alone = 800 * 4 * 0.017
    assert found.part_seconds < 0.02 * alone
    assert found.tokens < 800 * 0.2


@pytest.mark.parametrize("percentile", [90.0, 99.0])
@pytest.mark.parametrize(("tpot", "prompt_tokens", "rate"), [(0.035, 96, 2.0), (0.05, 96, 4.0), (0.05, 400, 0.8)])
def test_where_prompts_make_steps_long_riders_make_as_many_late_as_may_be(
    percentile: float, tpot: float, prompt_tokens: int, rate: float
) -> None:
    """What a prompt takes of a request's time is made up for by steps without riders."""
    steps = 12000
    alone, ridden = (
        served(lambda _: 1.0, percentile, steps=steps, tpot=tpot, prompt_tokens=prompt_tokens, rate=rate, riders=riders)
        for riders in (False, True)
    )
    pairs = [(alone.of_request[name], ridden.of_request[name]) for name in alone.of_request.keys() & ridden.of_request]
    assert len(pairs) > 400
    assert sum(before <= tpot < after for before, after in pairs) / len(pairs) <= 1 - percentile / 100 + 0.005
    assert ridden.tokens > 4 * steps


def test_guests_of_unlike_cost_each_get_what_has_time() -> None:
    """They take turns, so what one's windows and parts take says nothing of the next one's."""
    guests = [Guest(), Guest(ride_cost=2.0, part_cost=4.0, token_context=1000)]
    found, alone = served(lambda _: 1.0, 95.0, guests=guests), [served(lambda _: 1.0, 95.0, guests=[g]) for g in guests]
    assert found.late(0.05, since=320) <= 0.06
    for number in range(len(guests)):
        for turns in (found.windows, found.parts):
            over = [over for step, whose, _, over in turns if whose == number and step >= 320]
            assert len(over) > 200
            assert sum(each > 1.2 for each in over) < 0.02 * len(over)
        both, own = (
            [tokens for step, whose, tokens, _ in each.windows if whose == mine and step >= 320]
            for each, mine in ((found, number), (alone[number], 0))
        )
        assert fmean(both) > 0.9 * fmean(own)


@pytest.mark.parametrize("dear", [Guest(ride_cost=8.0), Guest(part_cost=40.0)], ids=["windows", "parts"])
def test_a_dear_guest_costs_the_others_its_own_turns_alone(dear: Guest) -> None:
    """It has its least now and then, and the usual one nearly what it has beside another usual one."""
    steps = 4000
    beside_usual, found = (
        served(lambda _: 1.0, 95.0, steps=steps, guests=[Guest(), other]) for other in (Guest(), dear)
    )
    assert found.late(0.05, since=320) <= 0.06
    for turns in (found.windows, found.parts):
        ridden = {(step // 500, whose) for step, whose, _, _ in turns}
        assert ridden == {(stretch, whose) for stretch in range(steps // 500) for whose in (0, 1)}
    for turns, before in ((found.windows, beside_usual.windows), (found.parts, beside_usual.parts)):
        own, usual = (sum(tokens for _, whose, tokens, _ in each if whose == 0) for each in (turns, before))
        assert own > 0.6 * usual
        # What has room is not what makes steps late.
        over = [over for step, whose, _, over in turns if whose == 0 and step >= 320]
        assert sum(each > 1.2 for each in over) < 0.02 * len(over)
