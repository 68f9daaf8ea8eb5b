"""An offline engine with continuous batching, step by step, that loses handles of its memory now and then.

All requests are there from the start, as in a batch job. As in vLLM: running requests go first, one token each or a
part of their prompt; then waiting ones come in, in their order, while all that they have so far fits; blocks are used
in the order in which they became free; without a free block the request that came in last starts over. A request that
loses a block starts over too, with its prompt and the tokens generated so far; nothing is found again by its prefix.
"""

import math
import random
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter

BLOCK_TOKENS = 16
STEP_TOKENS = 2048
RUNNING_MAX = 256
NORMAL_P95 = 1.645


@dataclass(frozen=True)
class Machine:
    """Time of a step. Seconds; the defaults are reckoned for 7e9 parameters of 16 bits on a GPU with 2 TB/s."""

    weights: float = 7e-3
    per_token: float = 1e-4
    per_cached_token: float = 2.8e-8
    rest: float = 2e-3

    def step(self, tokens: int, cached: int) -> float:
        """Of so many tokens, with so many before them in the cache."""
        return max(self.weights, self.per_token * tokens) + self.per_cached_token * cached + self.rest


@dataclass(eq=False)
class Request:
    """Counts of tokens."""

    number: int
    prompt: int
    output: int
    length: int
    """Of the prompt and what has been generated."""
    computed: int = 0
    blocks: list[int] = field(default_factory=list)


def draw_requests(number: int, seed: int) -> list[Request]:
    """Lengths have the median and the 95th percentile of the conversations in Azure's trace of 2023."""
    source = random.Random(seed)

    def draw(median: float, p95: float, most: int) -> int:
        deviation = math.log(p95 / median) / NORMAL_P95
        return max(1, min(most, round(source.lognormvariate(math.log(median), deviation))))

    lengths = [(draw(1020, 4083, 8192), draw(129, 451, 1024)) for _ in range(number)]
    return [Request(number, prompt, output, prompt) for number, (prompt, output) in enumerate(lengths)]


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)


class Engine:
    """One engine; its memory is `handles`, each of so many blocks."""

    def __init__(self, handles: int, blocks_per_handle: int, work: Sequence[Request], machine: Machine) -> None:
        self._per_handle = blocks_per_handle
        self._machine = machine
        self.held = set(range(handles))
        self._free = deque(range(handles * blocks_per_handle))
        self._allocations = count()
        self.allocated: dict[int, int] = {}
        """Of each block in use when it was allocated, counted up."""
        self.running: list[Request] = []
        self._waiting = deque(work)
        self._full = False
        self.now = 0.0

    @property
    def done(self) -> bool:
        """All requests have their output."""
        return not self.running and not self._waiting

    def handle_of(self, block: int) -> int:
        """The handle that a block lies in."""
        return block // self._per_handle

    def step(self) -> None:
        """One step, and the time that it takes."""
        cached = sum(map(attrgetter("computed"), self.running))
        left = STEP_TOKENS
        self._full = False
        for request in list(self.running):
            if request.blocks and left:
                left -= self._advance(request, left)
        if not self._full:
            left = self._admit(left)
        self.now += self._machine.step(STEP_TOKENS - left, cached)

    def take(self, handles: Collection[int], *, forget: bool = True) -> None:
        """Takes handles away. Without `forget` the requests that had something in them only wait for memory again."""
        gone = set(handles)
        self.held -= gone
        hit = [one for one in self.running if any(self.handle_of(block) in gone for block in one.blocks)]
        for request in reversed(hit):
            self._stop(request, forget=forget)
        self._free = deque(block for block in self._free if self.handle_of(block) not in gone)

    def give(self, handles: Collection[int]) -> None:
        """Gives handles back."""
        self.held.update(handles)
        for handle in handles:
            self._free.extend(range(handle * self._per_handle, (handle + 1) * self._per_handle))

    def _admit(self, left: int) -> int:
        """Lets waiting requests in; returns what is left of the step's tokens."""
        promised = sum(_blocks(one.length) - len(one.blocks) for one in self.running)
        while left and self._waiting and len(self.running) < RUNNING_MAX:
            request = self._waiting[0]
            if _blocks(request.length) > len(self._free) - promised:
                break
            self._waiting.popleft()
            self.running.append(request)
            left -= self._advance(request, left)
            promised += _blocks(request.length) - len(request.blocks)
        return left

    def _advance(self, request: Request, most: int) -> int:
        """Computes the next tokens of a request; returns how many that were."""
        new = min(request.length - request.computed, most)
        while len(request.blocks) < _blocks(request.computed + new):
            if self._free:
                block = self._free.popleft()
                self.allocated[block] = next(self._allocations)
                request.blocks.append(block)
                continue
            self._full = True
            last = self.running[-1]
            self._stop(last, forget=True)
            if last is request:
                return 0
        request.computed += new
        if request.computed == request.length:
            request.length += 1
            if request.length == request.prompt + request.output:
                self._release(request)
        return new

    def _stop(self, request: Request, *, forget: bool) -> None:
        self._release(request)
        if forget:
            request.computed = 0
        self._waiting.appendleft(request)

    def _release(self, request: Request) -> None:
        self.running.remove(request)
        for block in request.blocks:
            del self.allocated[block]
            if self.handle_of(block) in self.held:
                self._free.append(block)
        request.blocks = []
