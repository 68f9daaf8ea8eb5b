"""A real engine in which prompts wait for one another and fine-tuning rides a little."""

import json
import os
import time
from pathlib import Path
from typing import Any

from riding_engine.bench import STEPS, Bench, prompt
from riding_engine.tasks import task
from vllm import SamplingParams, TokensPrompt

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.planner import Plan, Planner
from rowen.runtime.vllm.riding.deferring import DeferringScheduler

TTFT_SECONDS = 40
os.environ["ROWEN_RIDE_TERMS"] = json.dumps(
    {
        "ttft": {"percentile": 99, "seconds": TTFT_SECONDS},
        "tpot": {"percentile": 99, "seconds": 10},
        "memoryBytes": 10**8,
        "deferPrefills": True,
    }
)

ROW = "rowen-row-1"
LENGTHS = {"decoding": 9, "first": 14, "second": 21, "large": 40, ROW: 10}
"""Of prompts; a step has 48 tokens."""
TOKENS = {"decoding": 48, "first": 6, "second": 7, "large": 5, ROW: 12}
"""Of answers."""


class Case:
    """Requests are known by names."""

    def __init__(self, model: Path, adapter: Path) -> None:
        self.bench, self.model = Bench(model, adapter), model
        self.scheduler: Any = self.bench.core.scheduler
        self.deferral = self.scheduler._deferral
        self.steps: list[dict[str, int]] = []
        self.answers: dict[str, tuple[int, ...]] = {}
        self._later = 0.0
        self._guests: list[int] = []
        self._ride_little()
        DeferringScheduler.rowen_clock = staticmethod(lambda: time.monotonic() + self._later)
        schedule = self.scheduler.schedule

        def noted(*args: Any, **kwargs: Any) -> Any:
            output = schedule(*args, **kwargs)
            # vLLM puts something random behind the name.
            self.steps.append({name.rpartition("-")[0]: n for name, n in output.num_scheduled_tokens.items()})
            return output

        self.scheduler.schedule = noted
        for name in LENGTHS:
            self.add(name)
            self.finish()
        self.expected = dict(self.answers)
        self.forget()

    def later(self) -> None:
        """Nobody that waits has time left."""
        self._later += TTFT_SECONDS

    def _ride_little(self) -> None:
        """However fast the machine is, what rides does so for many steps."""
        planner = self.bench.conductor._planner
        plan = planner.plan

        def planned(load: Load, *arguments: Any) -> Plan:
            found = plan(load, *arguments)
            return Plan(min(2, found.ride_tokens), min(0.001, found.part_seconds), found.reason)

        planner.plan = planned  # type: ignore[method-assign]
        Planner.idle_part_seconds = property(lambda _: 0.02)  # type: ignore[method-assign,assignment]

    def ride(self, lengths: tuple[int, ...] = (200,) * 12) -> int:
        """Somebody comes who has work."""
        self._guests.append(self.bench.guests.arrive(task(self.model, 1, lengths)))
        return self._guests[-1]

    def begin_riding(self) -> None:
        """The engine is idle, and a request comes after the first part."""
        turns = iter([True])
        self.bench.conductor.idle(lambda: next(turns, False))

    def add(self, name: str) -> None:
        seed = list(LENGTHS).index(name)
        parameters = SamplingParams(temperature=0, max_tokens=TOKENS[name], ignore_eos=True)
        self.bench.engine.add_request(
            name, TokensPrompt(prompt_token_ids=prompt(seed, LENGTHS[name])), parameters, arrival_time=time.time()
        )

    def turn(self, times: int = 1) -> list[dict[str, int]]:
        """What was in these steps."""
        before = len(self.steps)
        for _ in range(times):
            for output in self.bench.engine.step():
                if output.finished:
                    self.answers[output.request_id] = tuple(output.outputs[0].token_ids)
        return self.steps[before:]

    def finish(self) -> None:
        for _ in range(STEPS):
            if not self.bench.engine.has_unfinished_requests():
                return
            self.turn()
        raise AssertionError(f"it does not end: {self.steps[-3:]}")

    def decode(self) -> None:
        """A request decodes, and fine-tuning rides."""
        self.ride()
        self.add("decoding")
        self.turn(3)
        assert self.steps[-1] == {"decoding": 1}

    def check(self) -> None:
        """All that was asked was answered as it is alone, and nothing is left."""
        self.finish()
        assert self.answers == {name: self.expected[name] for name in self.answers}
        assert not self.scheduler._came
        assert not self.scheduler.requests

    def forget(self) -> None:
        """Begins anew."""
        for guest in self._guests:
            self.bench.guests.depart(guest)
        self._guests.clear()
        self.bench.conductor.idle(lambda: True)
        self.bench.guests.answers.clear()
        self.bench.engine.reset_prefix_cache()
        self.scheduler._deferral = self.deferral
        self.answers.clear()
        self.steps.clear()
        self._later = 0.0
