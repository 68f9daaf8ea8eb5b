"""Guests in turn, windows that ride or do not get through, guests that go, memory that is short."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import torch
from coserve_training.engine import MEMORY_BYTES, Engine, alone, furthest, result, run_parts
from coserve_training.models import draw_adapter, draw_sequences, task_of

from rowen.runtime.coserve.learner import Part, Phase, Upcoming
from rowen.runtime.coserve.task import Target, Task, TaskUnsuitable
from rowen.runtime.coserve.training import learner as learner_module
from rowen.runtime.coserve.training.learner import MachineLearner
from rowen.runtime.coserve.training.memory import gradient_bytes, needed_bytes, task_bytes
from rowen.runtime.coserve.training.model import Model

Models = Callable[..., Path]


@pytest.fixture
def folder(model: Models) -> Path:
    return model("llama")


def draw(folder: Path, lengths: tuple[int, ...], seed: int = 1) -> Task:
    targets = [Target.QUERY, Target.VALUE, Target.DOWN]
    return task_of(draw_adapter(folder, targets, rank=2, seed=seed), draw_sequences(lengths, seed), seed)


def run(part: Part | None) -> tuple[int, int]:
    """Its tokens, and those that are through with it."""
    assert part is not None
    part.run()
    return part.tokens, part.through_tokens


def test_guests_take_turns_and_do_not_disturb_each_other(folder: Path) -> None:
    tasks = {guest: draw(folder, (20 + guest, 9), guest) for guest in (3, 4, 5)}
    learner, engine = MachineLearner(folder, MEMORY_BYTES), Engine(folder)
    for guest, task in tasks.items():
        learner.add(guest, task)
    assert learner.waiting_tokens == sum(len(each.tokens) for task in tasks.values() for each in task.sequences)
    turns = []
    answers = {}
    while learner.upcoming() is not None:
        before = learner.waiting_tokens
        if window := learner.window(11):
            engine.run(window)
            window.finish()
            assert before - learner.waiting_tokens == window.tokens
            turns.append(window.tokens)
        if part := learner.part(5, forward=False):
            part.run()
        answers.update(learner.finished())
    assert learner.waiting_tokens == 0
    assert learner.window(11) is None
    # Each of the three had a window before any had its second one: 11 tokens are less than any has.
    assert turns[:3] == [11, 11, 11]
    for guest, task in tasks.items():
        assert answers[guest].number == task.number
        assert furthest(answers[guest], alone(folder, task)) <= 1e-5


def part_guest(learner: MachineLearner, forward: bool = True) -> int | None:
    """Whose part is next."""
    upcoming = learner.upcoming(forward)
    return upcoming.guest if upcoming is not None else None


def test_it_is_said_whose_turn_it_is(folder: Path) -> None:
    learner, engine = MachineLearner(folder, MEMORY_BYTES), Engine(folder)
    assert (learner.window_guest(), part_guest(learner)) == (None, None)
    for guest in (3, 4):
        learner.add(guest, draw(folder, (12,), guest))
    assert (learner.window_guest(), part_guest(learner), part_guest(learner, forward=False)) == (3, 3, None)
    for turn in (3, 4, 3):
        assert learner.window_guest() == turn
        window = learner.window(6)
        assert window is not None
        # While it is out it is the other one's.
        assert learner.window_guest() == 7 - turn
        engine.run(window)
        window.finish()
    # The first one's head is next, though it is the other one's turn to ride.
    assert (learner.window_guest(), part_guest(learner), part_guest(learner, forward=False)) == (4, 3, 3)
    learner.drop(3)
    assert (part_guest(learner), part_guest(learner, forward=False)) == (4, None)


def test_a_guest_that_is_passed_over_is_the_last_one(folder: Path) -> None:
    """Of those whose windows are next, and of those whose parts are; nothing else becomes of it."""
    tasks = {guest: draw(folder, (12,), guest) for guest in (3, 4, 5)}
    learner, engine = MachineLearner(folder, MEMORY_BYTES), Engine(folder)
    for guest, task in tasks.items():
        learner.add(guest, task)
    turns = []
    for _ in range(4):
        guest = learner.window_guest()
        assert guest is not None
        turns.append(guest)
        learner.pass_over(guest)
    assert turns == [3, 4, 5, 3]
    for _ in range(3):
        window = learner.window(12)
        assert window is not None
        engine.run(window)
        window.finish()
    # All of them are at the head, in the order in which their windows rode.
    for guest in (4, 5, 3, 4):
        assert part_guest(learner, forward=False) == guest
        learner.pass_over(guest)
    # One that has gone has no turn.
    learner.drop(3)
    learner.pass_over(3)
    run_parts(learner, 12)
    answers = dict(learner.finished())
    assert list(answers) == [5, 4]
    for guest, answer in answers.items():
        assert furthest(answer, alone(folder, tasks[guest])) <= 1e-5


@pytest.mark.parametrize("lengths", [(1,) * 300, (0,) * 50 + (1,) * 40 + (0, 0, 200) + (2,) * 30 + (0,)])
def test_many_short_sequences_are_no_more_at_once_than_attention_has_time_for(
    folder: Path, lengths: tuple[int, ...]
) -> None:
    task, engine = draw(folder, lengths), Engine(folder)
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, task)
    ends = [end for end, length in zip(accumulate(lengths), lengths, strict=True) if length]
    begin = 0
    while (window := learner.window(256)) is not None:
        # So many sequences end in it but for the last one's, which may go on.
        end = begin + window.tokens
        assert sum(begin < each < end for each in ends) < 16
        engine.run(window)
        window.finish()
        begin = end
    assert begin == sum(lengths)
    backward = []
    while (part := learner.part(512)) is not None:
        if part.phase is Phase.BACKWARD:
            backward.append(part.tokens)
        part.run()
    assert sum(backward) == 3 * sum(lengths)
    assert len(backward) >= 3 * sum(1 for length in lengths if length) // 17
    assert furthest(result(learner), alone(folder, task)) <= 1e-5


def test_parts_of_one_sequence_are_as_large_as_ever(folder: Path) -> None:
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, draw(folder, (200,)))
    sizes = [run(part)[0] for part in iter(partial(learner.part, 512), None)]
    # Two of three layers at once, each way; at the head what is learned.
    assert sizes == [400, 200, 134, 400, 200]


def test_an_abandoned_window_leaves_nothing(folder: Path) -> None:
    task, engine = draw(folder, (30,)), Engine(folder)
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, task)
    for layers in (1, 2, 3):
        window = learner.window(12)
        assert window is not None
        engine.run(window, layers)
        window.abandon()
        assert learner.waiting_tokens == 30
    run_parts(learner, 12)
    found, expected = result(learner), alone(folder, task, 12)
    # The same windows: the same bits.
    assert found.loss_sum == expected.loss_sum
    assert furthest(found, expected) == 0


def test_one_window_is_out_at_a_time(folder: Path) -> None:
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, draw(folder, (30,)))
    window = learner.window(12)
    assert window is not None
    assert learner.window(12) is None
    assert learner.part(12) is None
    window.abandon()
    assert learner.window(12) is not None


def test_what_cannot_ride_is_told_from_what_can(folder: Path) -> None:
    learner = MachineLearner(folder, MEMORY_BYTES)
    assert learner.upcoming() is None
    learner.add(1, draw(folder, (8,)))
    assert learner.upcoming() == Upcoming(1, Phase.FORWARD)
    assert learner.upcoming(forward=False) is None
    assert learner.part(8, forward=False) is None
    phases = []
    while part := learner.part(8):
        upcoming = learner.upcoming()
        assert upcoming is not None
        assert part.phase is upcoming.phase
        part.run()
        phases.append(part.phase)
    # Eight tokens in each of the layers, forward and back; the head has the six with a label.
    assert phases == [*[Phase.FORWARD] * 3, Phase.HEAD, *[Phase.BACKWARD] * 3]


def test_what_comes_after_its_group_cannot_ride_yet(folder: Path) -> None:
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, draw(folder, (700, 600)))
    waiting = [learner.waiting_tokens]
    while part := learner.part(700):
        assert (learner.waiting_tokens > 0) == (part.phase is Phase.FORWARD)
        part.run()
        waiting.append(learner.waiting_tokens)
    # One group after the other.
    assert sorted({700, 600} & set(waiting)) == [600, 700]
    assert max(waiting) == 700


def test_a_part_has_as_many_layers_as_fit(folder: Path) -> None:
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, draw(folder, (20,)))
    found = []
    while part := learner.part(40):
        part.run()
        found.append((part.phase, part.tokens, part.context, part.through_tokens))
    assert found == [
        (Phase.FORWARD, 40, 2 * 210, 0),
        (Phase.FORWARD, 20, 210, 20),
        (Phase.HEAD, 14, 0, 0),
        (Phase.BACKWARD, 40, 2 * 210, 0),
        (Phase.BACKWARD, 20, 210, 20),
    ]


def test_a_window_takes_tokens_on_from_where_they_are(folder: Path) -> None:
    task, engine = draw(folder, (30,)), Engine(folder)
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, task)
    run(learner.part(15))
    run(learner.part(8))
    # Fifteen tokens are through the first layer of three, eight of them through the second, too.
    found = []
    for tokens in (5, 5, 5, 30, 30):
        window = learner.window(tokens)
        assert window is not None
        found.append((window.first_layer, window.tokens, window.whole_tokens, window.context))
        engine.run(window, 2)
        window.abandon()
        window = learner.window(tokens)
        assert window is not None
        engine.run(window)
        window.finish()
    assert found == [
        (2, 5, 2, 15 * 2 // 5),
        (2, 3, 1, 21 * 1 // 3),
        (1, 5, 4, (9 + 10 + 11 + 12 + 13) * 4 // 5),
        (1, 2, 2, 14 + 15),
        (0, 15, 15, sum(range(16, 31))),
    ]
    run_parts(learner, 12)
    assert furthest(result(learner), alone(folder, task)) <= 1e-5


def test_parts_that_become_smaller_or_larger_go_on_where_the_last_one_was(folder: Path) -> None:
    task = draw(folder, (30,))
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, task)
    # Of each: its tokens, and those that are through. One layer of all; the next by pieces; the last one from where the
    # third was broken off, as pieces are through.
    found = [run(learner.part(tokens)) for tokens in (30, 10, 1, 16, 100, 7, 22)]
    assert found == [(30, 0), (10, 0), (1, 0), (16, 0), (3 + 30, 30), (7, 0), (13, 0)]
    run_parts(learner, 30)
    assert furthest(result(learner), alone(folder, task)) <= 1e-5


def test_windows_and_parts_of_any_size_come_to_the_same(folder: Path) -> None:
    task, engine, draws = draw(folder, (70, 1, 33)), Engine(folder), random.Random(7)
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, task)
    through = 0
    while learner.upcoming() is not None:
        window = learner.window(draws.randint(1, 12)) if draws.random() < 0.4 else None
        if window is not None:
            engine.run(window)
            window.finish()
            through += window.tokens
        elif part := learner.part(draws.randint(1, 60)):
            part.run()
            through += part.through_tokens if part.phase is Phase.FORWARD else 0
    assert through == 104
    assert furthest(result(learner), alone(folder, task)) <= 1e-5


def test_a_token_is_through_with_its_way_back_in_the_lowest_layer_that_has_an_adapter(folder: Path) -> None:
    task = draw(folder, (8,))
    pairs = {place: pair for place, pair in task.adapter.pairs.items() if place[0] == 2}
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, replace(task, adapter=replace(task.adapter, pairs=pairs)))
    through = 0
    while part := learner.part(5):
        through += part.through_tokens if part.phase is Phase.BACKWARD else 0
        part.run()
    assert through == 8


def test_context_counts_what_is_attended_to(folder: Path) -> None:
    learner, engine = MachineLearner(folder, MEMORY_BYTES), Engine(folder)
    learner.add(1, draw(folder, (5, 4)))
    window = learner.window(3)
    assert window is not None
    assert window.context == 1 + 2 + 3
    engine.run(window)
    window.finish()
    window = learner.window(4)
    assert window is not None
    assert (window.tokens, window.context) == (4, 4 + 5 + 1 + 2)


@pytest.mark.parametrize("parts", [0, 1, 3, 5])
def test_a_guest_that_goes_is_forgotten(parts: int, folder: Path) -> None:
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, draw(folder, (30,)))
    learner.add(2, draw(folder, (12,), 2))
    for _ in range(parts):
        part = learner.part(10)
        assert part is not None
        part.run()
    learner.drop(1)
    run_parts(learner, 10)
    assert furthest(result(learner, 2), alone(folder, draw(folder, (12,), 2))) <= 1e-5
    learner.add(1, draw(folder, (12,), 2))
    run_parts(learner, 10)
    assert learner.finished()


def test_a_guest_may_go_while_its_window_is_out(folder: Path) -> None:
    learner, engine = MachineLearner(folder, MEMORY_BYTES), Engine(folder)
    learner.add(1, draw(folder, (30,)))
    window = learner.window(12)
    assert window is not None
    engine.run(window, 1)
    learner.drop(1)
    assert learner.upcoming() is None
    learner.add(1, draw(folder, (9,), 3))
    window.finish()
    assert learner.waiting_tokens == 9
    run_parts(learner, 12)
    assert furthest(result(learner), alone(folder, draw(folder, (9,), 3))) <= 1e-5


def test_an_answer_of_a_guest_that_has_gone_is_not_told(folder: Path) -> None:
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, draw(folder, (9,)))
    run_parts(learner, 100)
    learner.drop(1)
    assert learner.finished() == []


def test_a_guest_has_one_task_at_a_time(folder: Path) -> None:
    learner = MachineLearner(folder, MEMORY_BYTES)
    learner.add(1, draw(folder, (9,)))
    with pytest.raises(TaskUnsuitable, match="has a task"):
        learner.add(1, draw(folder, (9,)))


def test_tasks_wait_for_memory_in_their_order(folder: Path) -> None:
    task = draw(folder, (30,))
    architecture = Model.of(folder).architecture
    room = needed_bytes(task, architecture, torch.float32) + task_bytes(task, architecture, torch.float32) // 2
    for memory, waits in ((room, True), (MEMORY_BYTES, False)):
        learner = MachineLearner(folder, memory)
        for guest in (1, 2, 3):
            learner.add(guest, draw(folder, (30,)))
        part = learner.part(90)
        assert part is not None
        part.run()
        # The first one's way forward is through: only another one's can ride.
        assert learner.waiting_tokens == (0 if waits else 60)
        window = learner.window(30)
        assert (window is None) == waits
        if window is not None:
            window.abandon()
        run_parts(learner, 30)
        assert [guest for guest, _ in learner.finished()] == [1, 2, 3]


@pytest.mark.parametrize("way", ["by itself", "with the next task", "gone"])
def test_an_answer_counts_until_it_is_back(folder: Path, way: str) -> None:
    tasks = {guest: draw(folder, (30,), guest) for guest in (1, 2)}
    learner = MachineLearner(folder, needed_bytes(tasks[1], Model.of(folder).architecture, torch.float32))
    for guest in (1, 2):
        learner.add(guest, tasks[guest])
    run_parts(learner, 30)
    answer = [result(learner)]
    assert learner.upcoming() is None
    # It was copied for the guest.
    answer.clear()
    assert learner.upcoming() is None
    # Whoever holds the former answer may make giving it back wait.
    if way == "gone":
        learner.drop(1)
    elif way == "with the next task":
        learner.add(1, draw(folder, (30,), 3))
    assert learner.upcoming() is None
    tasks.clear()
    run_parts(learner, 30)
    assert learner.finished()[0][0] == 2


def test_answers_that_are_not_given_back_count_all_of_them(folder: Path) -> None:
    tasks = [draw(folder, (30,), seed) for seed in range(4)]
    architecture = Model.of(folder).architecture
    gradients = gradient_bytes(tasks[0])
    learner = MachineLearner(folder, needed_bytes(tasks[0], architecture, torch.float32) + 2 * gradients)
    for guest, task in enumerate(tasks[:2]):
        # A pod that comes in anew is another guest.
        learner.add(guest, task)
        run_parts(learner, 30)
        assert result(learner, guest)
        learner.drop(guest)
    learner.add(2, tasks[2])
    run_parts(learner, 30)
    assert result(learner, 2)
    learner.add(3, tasks[3])
    assert learner.upcoming() is None
    del tasks[0]
    run_parts(learner, 30)
    assert result(learner, 3)


def test_what_a_task_that_waits_needs_is_not_counted_in_each_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def counting(task: Task, *arguments: Any) -> int:
        counted.append(task.number)
        return task_bytes(task, *arguments)

    monkeypatch.setattr(learner_module, "task_bytes", counting)
    tasks = {guest: draw(folder, (30,), guest) for guest in (1, 2, 3)}
    learner = MachineLearner(folder, needed_bytes(tasks[1], Model.of(folder).architecture, torch.float32))
    for guest in (1, 2):
        learner.add(guest, tasks[guest])
    for _ in range(5):
        assert learner.waiting_tokens == 30
    assert counted == [1, 2]
    # Another one is the first, then.
    learner.drop(2)
    learner.add(3, tasks[3])
    run_parts(learner, 12)
    assert [guest for guest, _ in learner.finished()] == [1]
    # Its answer is back.
    del tasks[1]
    learner.drop(1)
    run_parts(learner, 12)
    assert [guest for guest, _ in learner.finished()] == [3]
    # Once more where somebody has gone.
    assert counted == [1, 2, 3, 3]
