"""The rows of an engine that run, while they are not among its scheduler's requests."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm.v1.request import Request

    from rowen.runtime.vllm.rows.order import Rows


@dataclass
class Riders:
    """They are in the order in which they began."""

    running: "list[Request]"
    rows: "Rows"
    preempted: bool = False
    """Whether online requests needed blocks of theirs in this step."""

    def wanted_tokens(self, most: int, waiting: "Iterable[Request]") -> int:
        """Tokens that they and these could have computed in a step, as far as `most`."""
        tokens = 0
        for row in chain(self.running, waiting):
            tokens += max(0, row.num_tokens_with_spec + row.num_output_placeholders - row.num_computed_tokens)
            if tokens >= most:
                return most
        return tokens

    def scheduled(self, seated: "Sequence[Request]", running: "Sequence[Request]") -> int:
        """Takes over what vLLM made of those that it saw: `seated` ran before, `running` do now.

        Returns how many began.
        """
        now, before = set(running), set(self.running)
        begun = [row for row in running if row not in before]
        for row in begun:
            self.rows.run(row)
        for row in seated:
            if row not in now:
                self.rows.wait(row)
        stay = now | (before - set(seated))
        self.running = [row for row in self.running if row in stay] + begun
        return len(begun)


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
