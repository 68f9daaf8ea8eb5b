"""The machine of small parts that tasks are worked through by, as those who run the parts see it."""

from enum import StrEnum
from typing import NamedTuple, Protocol

import torch

from rowen.runtime.coserve.task import Result, Task, TaskUnsuitable


class Linear(StrEnum):
    """A linear layer of the engine's, which may hold several of the model's."""

    QKV = "qkv_proj"
    OUTPUT = "o_proj"
    GATE_UP = "gate_up_proj"
    DOWN = "down_proj"


class Window(Protocol):
    """Stretches of one guest's sequences on their way through all layers (FlexLLM, Algorithm 2).

    Rides: for each layer from the first one on, and in it for each of `Linear` in that order, `enter` and then `leave`
    with what the linear layer made of it. Then `finish`. A window that did not get through is given up by `abandon`,
    and nothing of it remains.
    """

    first_layer: int
    """Its tokens have been through those below."""
    tokens: int
    whole_tokens: int
    """So many make as much work on their way through all layers."""
    context: int
    """What these attend to, summed over them."""

    def enter(self, layer: int, linear: Linear) -> torch.Tensor:
        """[tokens, inputs] in the model's type."""

    def leave(self, layer: int, linear: Linear, outputs: torch.Tensor) -> None:
        """[tokens, outputs] of the base weights, with their bias where they have one."""

    def finish(self) -> None:
        """All layers are through."""

    def abandon(self) -> None:
        """The step failed, or its rows were not computed."""


class Phase(StrEnum):
    """What a part belongs to."""

    FORWARD = "Forward"
    HEAD = "Head"
    BACKWARD = "Backward"


class Upcoming(NamedTuple):
    """The next part."""

    guest: int
    """Whose it is."""
    phase: Phase


class Part(Protocol):
    """A piece of work that needs no engine and runs to its end: tokens in some layers, or some at the head."""

    phase: Phase
    tokens: int
    """Of each layer anew; of several layers sixteen at least, since reading weights takes as long."""
    context: int
    """What these attend to, summed over them."""
    through_tokens: int
    """With which the way forward or back is through: those in the last layer of it."""

    def run(self) -> None:
        """Works; once."""


class Learner(Protocol):
    """Works tasks through, one guest's after the other's in turn. One thread calls it. Guests are numbers."""

    def add(self, guest: int, task: Task) -> None:
        """Takes a task in, one per guest at a time; costs microseconds. Raises `TaskUnsuitable`."""

    def drop(self, guest: int) -> None:
        """The guest has gone; its task, if it has one, is forgotten with all its memory."""

    def window(self, most_tokens: int) -> Window | None:
        """The next stretch that can ride, of so many tokens at most; None: none can now. One is out at a time."""

    def upcoming(self, forward: bool = True) -> Upcoming | None:
        """What the next part belongs to; None: there is none. Without `forward`, what can ride is none."""

    def window_guest(self) -> int | None:
        """Whose window is next; None: none can ride now."""

    def pass_over(self, guest: int) -> None:
        """It could not use its turn: it is the next one's, and that guest's again after all others'."""

    def part(self, most_tokens: int, forward: bool = True) -> Part | None:
        """The next piece of work without the engine, of so many tokens at most, those of each layer counted.

        Without `forward` it is none that can ride.
        """

    def finished(self) -> list[tuple[int, Result | TaskUnsuitable]]:
        """By guest, what has ended since it was asked last.

        Gradients count as memory of the riders while the answer lives, and once more for the guest's copy while the
        task lives, until the guest's next task: whoever has the copy has to keep the task, and nobody else may.
        """

    @property
    def waiting_tokens(self) -> int:
        """Tokens that windows can take now: 0 means that no window can ride, whatever else is still to come."""
