"""An engine's loop in a thread: a seat, and a learner that works its tasks through."""

import threading
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import AutoConfig

from rowen.crds.ride.messages import StepSums
from rowen.runtime.coserve.learner import Learner
from rowen.runtime.coserve.seat.host import Host
from rowen.runtime.coserve.seat.seat import Arrival, Seat
from rowen.runtime.coserve.task import Target, Task, TaskUnsuitable


def host_of(model: Path, check: Callable[[Task], None] = lambda _: None, most_tokens: int = 4096) -> Host:
    """A Llama in float32."""
    config = AutoConfig.from_pretrained(model)
    hidden, inner = config.hidden_size, config.intermediate_size
    head = hidden // config.num_attention_heads
    values = config.num_key_value_heads * head
    sizes = {
        Target.QUERY: (hidden, hidden), Target.KEY: (hidden, values), Target.VALUE: (hidden, values),
        Target.OUTPUT: (hidden, hidden), Target.GATE: (hidden, inner), Target.UP: (hidden, inner),
        Target.DOWN: (inner, hidden),
    }  # fmt: skip
    return Host(model, torch.float32, config.num_hidden_layers, sizes, most_tokens, 2**30, check)


class Engine:
    """Serves nobody but riders, until it is closed."""

    def __init__(self, agent: str, host: Host, learner: Learner, *, tokens: int = 1 << 20) -> None:
        """`tokens`: of a part, at most."""
        self.seat = Seat(agent, host, self._wake)
        self.tasks = 0
        self._learner = learner
        self._tokens = tokens
        self._event = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends as an engine that is stopped."""
        self._closing = True
        self._event.set()
        self._thread.join()
        self.seat.close()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wake(self) -> None:
        self._event.set()

    def _run(self) -> None:
        with torch.inference_mode():
            while not self._closing:
                self._event.wait()
                self._event.clear()
                self._take()
                while not self._closing and (part := self._learner.part(self._tokens)) is not None:
                    part.run()
                    self._take()
                    self._deliver()
                self._deliver()

    def _deliver(self) -> None:
        for guest, answer in self._learner.finished():
            self.seat.deliver(guest, answer)

    def _take(self) -> None:
        for event in self.seat.take():
            if isinstance(event, Arrival):
                self.tasks += 1
                self.seat.tell(StepSums(solo_tokens=self.tasks), None)
                try:
                    self._learner.add(event.guest, event.task)
                except TaskUnsuitable as error:
                    self.seat.deliver(event.guest, error)
            else:
                self._learner.drop(event.guest)


Start = Callable[[], Engine]
