"""Offline tenants, step by step: what they get done in the time and with the memory that they are given.

They know nothing of the formula that foretells them: a batch worker admits, decodes, drops and prefills again single
sequences; a tuner loads the layers that have no room. Memory in handles, times in granted seconds.
"""

from dataclasses import dataclass, field
from typing import Protocol

TOKENS_PER_HANDLE = 16
STEPS = 8
"""Decoding steps that are taken at once."""


class Tenant(Protocol):
    """A job that runs."""

    want: int
    """Handles that it takes when it may."""
    tokens: float
    """Done so far."""

    def run(self, seconds: float, memory: int) -> None:
        """So many more granted seconds with so much memory."""


@dataclass
class Sequence:
    """A request of a batch: what it needs, and how far it is."""

    prompt: int
    output: int
    written: int = 0
    counted: int = 0

    @property
    def handles(self) -> int:
        """That its cache needs for the next steps."""
        return -(-(self.prompt + self.written + STEPS) // TOKENS_PER_HANDLE)


@dataclass
class Batch:
    """Batch inference with continuous batching: a step takes longer with more sequences, but not by as much."""

    prompt: int
    output: int
    most: int
    """Sequences at a time."""
    step_seconds: float
    row_seconds: float
    prefill: float = 20_000.0
    """Tokens per second."""
    tokens: float = 0.0
    running: list[Sequence] = field(default_factory=list)
    waiting: list[Sequence] = field(default_factory=list)
    made: int = 0
    owed: float = 0.0
    """Seconds of work under way at the end of the last call."""

    @property
    def want(self) -> int:
        """All sequences at their longest."""
        return self.most * -(-(self.prompt + self.output) // TOKENS_PER_HANDLE)

    def run(self, seconds: float, memory: int) -> None:
        """Steps until the time is over; one that is under way goes on with the next call."""
        left = seconds - self.owed
        self._shrink(memory)
        while left > 0.0:
            spent = self._admit(memory)
            if self.running:
                spent += self._decode(memory)
            elif spent == 0.0:
                left = 0.0
            left -= spent
        self.owed = -left

    def _next(self) -> Sequence:
        """One that was dropped, or a new one; their lengths differ, in a fixed order."""
        if self.waiting:
            return self.waiting.pop()
        self.made += 1
        part = 0.5 + (self.made * 0.618033988749895) % 1.0
        return Sequence(round(self.prompt * part), max(1, round(self.output * (1.5 - part % 1.0 / 2) * 0.8)))

    def _admit(self, memory: int) -> float:
        """Seconds for the prefill of those that have room now."""
        spent, used = 0.0, sum(one.handles for one in self.running)
        while len(self.running) < self.most:
            one = self._next()
            if used + one.handles > memory:
                self.waiting.append(one)
                break
            used += one.handles
            self.running.append(one)
            spent += (one.prompt + one.written) / self.prefill
        return spent

    def _decode(self, memory: int) -> float:
        """Some tokens more of each."""
        spent = STEPS * (self.step_seconds + self.row_seconds * len(self.running))
        for one in self.running:
            one.written = min(one.output, one.written + STEPS)
            if one.written > one.counted:
                self.tokens += one.written - one.counted
                one.counted = one.written
        self.running = [one for one in self.running if one.written < one.output]
        self._shrink(memory)
        return spent

    def _shrink(self, memory: int) -> None:
        """Drops the sequences that have least to lose until the others fit; they keep their text, not their cache."""
        used = sum(one.handles for one in self.running)
        if used <= memory:
            return
        self.running.sort(key=lambda one: -one.handles)
        while self.running and used > memory:
            one = self.running.pop()
            used -= one.handles
            self.waiting.append(one)


@dataclass
class Tuner:
    """Fine-tuning whose frozen layers are loaded again for each step where they have no room."""

    want: int
    step_tokens: int
    step_seconds: float
    load_seconds: float
    """For all layers."""
    tokens: float = 0.0

    def run(self, seconds: float, memory: int) -> None:
        """Steps, and parts of steps."""
        resident = min(1.0, max(0.0, memory / self.want)) if self.want else 1.0
        self.tokens += self.step_tokens * seconds / (self.step_seconds + (1.0 - resident) * self.load_seconds)
