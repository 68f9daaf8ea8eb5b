"""A task on its way through the model."""

from dataclasses import dataclass

import torch

from rowen.runtime.coserve.learner import Phase
from rowen.runtime.coserve.task import IGNORED, Pair, Place, Result, Target, Task
from rowen.runtime.coserve.training.backward import Backward
from rowen.runtime.coserve.training.bypass import Bypass, never_gradients, no_gradients
from rowen.runtime.coserve.training.forward import Forward
from rowen.runtime.coserve.training.group import Group
from rowen.runtime.coserve.training.head import Sums, head
from rowen.runtime.coserve.training.memory import WINDOW_TOKENS, groups_of, lowest_layer
from rowen.runtime.coserve.training.model import Model
from rowen.runtime.coserve.training.way_forward import StepAhead, WayForward, even_share

MOST_STRETCHES = 16
"""Pieces of sequences in a window, and in all of a part on the way back: attention goes through them one by one, so
many of a token each would take far longer than as many tokens of one."""


@dataclass(frozen=True)
class StepBack:
    """Tokens of a group in one layer, on the way back."""

    layer: int
    begin: int
    end: int
    is_last: bool
    """The way back goes no further down."""


class Work:
    """Group by group: forward, head, backward. Where it stands changes only when something was worked through."""

    def __init__(self, task: Task, model: Model, saved: int = 0) -> None:
        """Allocates nothing before its turn comes. `saved`: as a `Group` has it."""
        self.task = task
        self._model = model
        self._saved = saved
        self._lowest = lowest_layer(task, model.architecture.layers)
        self._gradients: dict[Place, Pair] = {}
        self._bypasses = [self._bypasses_of(layer) for layer in range(model.architecture.layers)]
        self._groups = groups_of(task.lengths)
        self._sums = Sums()
        self._learned = 0
        self._group: Group | None = None
        self.way = WayForward(0, model.architecture.layers)
        """Of the group."""
        self._headed = 0
        """Of the learned tokens of the group, how many were at the head."""
        self._layer = self._left = 0
        """Where the way back is, and how many tokens of the group it has before it there."""
        self._start_group()

    @property
    def phase(self) -> Phase | None:
        """What comes next; None: it has ended."""
        if self._group is None:
            return None
        if self.way.left:
            return Phase.FORWARD
        return Phase.HEAD if self._headed < len(self._group.learned) else Phase.BACKWARD

    def riding(self, most_tokens: int) -> StepAhead:
        """As `WayForward.riding`."""
        return self.way.riding(most_tokens, self._window_tokens)

    def ahead(self, most_tokens: int) -> list[StepAhead]:
        """As `WayForward.ahead`."""
        return self.way.ahead(most_tokens, self._window_tokens)

    def forward(self, step: StepAhead) -> Forward:
        """What takes a step of its `way`. Changes only what counts once that `went`."""
        return Forward(self._model, self._now, self._bypasses, step.begin, step.end, step.first_layer)

    def at_head(self, most_tokens: int) -> torch.Tensor:
        """Numbers of the next learned tokens for the head, of its turn."""
        learned = self._now.learned[self._headed :]
        return learned[: _share(len(learned), most_tokens)]

    def run_head(self, rows: torch.Tensor) -> None:
        """Works what `at_head` gave."""
        scale = self.task.loss_scale if self.task.gradients else None
        head(self._model, self._now, rows, self._sums, scale)
        self._headed += len(rows)
        if self.phase is Phase.BACKWARD:
            self._turn_back()

    def back(self, most_tokens: int) -> list[StepBack]:
        """The next steps back: the first as far as it goes, more of them if they fit as a whole."""
        steps: list[StepBack] = []
        layer, left, room, stretches = self._layer, self._left, most_tokens, 0
        while layer >= self._lowest:
            whole = self._whole_back(left)
            tokens = min(whole, room)
            stretches += len(self._now.stretches(left - tokens, left))
            if steps and (tokens < whole or stretches > MOST_STRETCHES):
                break
            steps.append(StepBack(layer, left - tokens, left, layer == self._lowest))
            left, room = left - tokens, room - tokens
            if not left:
                layer, left = layer - 1, self._now.size
        return steps

    def step_back(self, step: StepBack) -> None:
        """Works one of what `back` gave."""
        layer = step.layer
        self._allocate_gradients(layer)
        goes_on = layer > self._lowest
        Backward(self._model, self._now, self._bypasses[layer], layer, step.begin, step.end, goes_on).run()
        self._left = step.begin
        if not self._left:
            self._layer, self._left = layer - 1, self._now.size
            if self._layer < self._lowest:
                self._start_group()

    def context(self, begin: int, end: int) -> int:
        """What tokens of the group attend to, summed over them."""
        return sum(stretch.context for stretch in self._now.stretches(begin, end))

    def result(self) -> Result:
        """Once it has ended."""
        pairs = self.task.adapter.pairs if self.task.gradients else {}
        gradients = {place: self._gradients.get(place) or never_gradients(pair) for place, pair in pairs.items()}
        return Result(self.task.number, self._sums.loss, self._learned, self._sums.correct, gradients)

    @property
    def _now(self) -> Group:
        if self._group is None:
            raise RuntimeError("the task has ended")
        return self._group

    @property
    def _window_tokens(self) -> int:
        """Of the next window on the way forward, at most."""
        begin = self.way.through
        stretches = self._now.stretches(begin, begin + WINDOW_TOKENS)
        return stretches[MOST_STRETCHES].begin - begin if len(stretches) > MOST_STRETCHES else WINDOW_TOKENS

    def _whole_back(self, left: int) -> int:
        """Tokens of the next window on the way back."""
        tokens = even_share(left, WINDOW_TOKENS)
        stretches = self._now.stretches(left - tokens, left)
        return left - stretches[-MOST_STRETCHES].begin if len(stretches) > MOST_STRETCHES else tokens

    def _start_group(self) -> None:
        """The next one that learns something."""
        layers = self._model.architecture.layers
        self._group, self.way, self._headed = None, WayForward(0, layers), 0
        while self._groups and self._group is None:
            sequences = [self.task.sequences[number] for number in self._groups.pop(0)]
            if bool((torch.cat([sequence.labels for sequence in sequences]) != IGNORED).any()):
                self._group = Group(sequences, self._model, self._lowest, self._saved)
                self.way = WayForward(self._group.size, layers)
                self._learned += len(self._group.learned)

    def _turn_back(self) -> None:
        """At the end of the head."""
        if self._lowest == self._model.architecture.layers:
            self._start_group()
            return
        group = self._now
        group.stream[group.labels == IGNORED] = 0
        self._layer, self._left = self._model.architecture.layers - 1, group.size

    def _bypasses_of(self, layer: int) -> dict[Target, Bypass]:
        adapter = self.task.adapter
        places = ((target, adapter.pairs.get((layer, target))) for target in Target)
        return {target: Bypass(pair, adapter.scaling) for target, pair in places if pair is not None}

    def _allocate_gradients(self, layer: int) -> None:
        for target, bypass in self._bypasses[layer].items():
            if bypass.gradients is None:
                bypass.gradients = self._gradients[layer, target] = no_gradients(bypass.pair)


def _share(left: int, most_tokens: int) -> int:
    """Tokens of the next of about equally large windows, of so many at most."""
    return min(most_tokens, even_share(left, WINDOW_TOKENS))
