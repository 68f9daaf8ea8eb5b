"""The rows of an engine, while they are not among its scheduler's requests."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from rowen.runtime.vllm.rows.order import together

if TYPE_CHECKING:
    from vllm.v1.request import Request


@dataclass
class Riders:
    """They are in the order in which they came."""

    running: "list[Request]"
    waiting: "list[Request]"
    preempted: bool = False
    """Whether online requests needed blocks of theirs in this step."""

    def wanted_tokens(self, most: int, with_waiting: bool) -> int:
        """Tokens that they could have computed in a step, as far as `most`."""
        tokens = 0
        for row in chain(self.running, self.waiting if with_waiting else ()):
            tokens += max(0, row.num_tokens_with_spec + row.num_output_placeholders - row.num_computed_tokens)
            if tokens >= most:
                return most
        return tokens

    def in_order(self) -> "list[Request]":
        """Those that wait, as they are taken."""
        rows = sorted([*self.running, *self.waiting], key=lambda row: row.arrival_time)
        # The hash of the first block is that of all tokens in it; a prompt that is shorter has none.
        order = together([next(iter(row.block_hashes), None) for row in rows])
        waiting = set(self.waiting)
        return [rows[place] for place in order if rows[place] in waiting]

    def scheduled(self, seated: "Sequence[Request]", running: "list[Request]", waiting: "Iterable[Request]") -> None:
        """Takes over what vLLM made of those that it saw: `seated` ran before, and none of the others did."""
        now, before, waited = set(running), set(self.running), set(self.waiting)
        stay = now | (before - set(seated))
        self.running = [row for row in self.running if row in stay] + [row for row in running if row not in before]
        self.waiting = [row for row in waiting if row not in waited] + [row for row in self.waiting if row not in now]


@contextmanager
def replaced(owner: object, **values: Any) -> Iterator[None]:
    """Attributes of the object have other values meanwhile."""
    before = {name: vars(owner)[name] for name in values if name in vars(owner)}
    try:
        vars(owner).update(values)
        yield
    finally:
        for name in values:
            if name in before:
                setattr(owner, name, before[name])
            else:
                delattr(owner, name)
