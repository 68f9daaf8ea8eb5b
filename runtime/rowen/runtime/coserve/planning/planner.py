"""How much rides in the next step, and how long parts may run after it."""

import math
from dataclasses import dataclass

from rowen.crds.ride.terms import RideTerms
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.margin import Margin
from rowen.runtime.coserve.planning.predictor import Predictor
from rowen.runtime.coserve.planning.search import most_tokens
from rowen.runtime.coserve.planning.token_pace import TokenPace

_PREFILL_PART = 8
"""A step with a prefill that ends within this part of the TTFT's bound has room for riders; longer ones have none."""
_PREFILL_STRETCH = 1.05
"""By which riders make steps with a prefill longer, at most: so much later is a prompt through, of any length."""
_WAIT_PART = 4
"""Of the TTFT's bound: so long may a step with its parts keep a new request waiting."""
_IDLE_PART = 10
"""Of the TTFT's bound: so long may a part keep the first request waiting."""
_IDLE_STRETCH = 2.0
"""Without requests a step or part may take so many times what one with a single token takes: weights are read for
either, and where reading them takes all the time there is, each token would pay for it."""
_ONE_ROW = Load(row_tokens=1)
_MOST_PLANS = 4096
_MOST_TOKENS = 1024
PATIENCE_STEPS = 16
"""Turns in which a guest's windows, or its parts, had no room, after which a little of them rides all the same."""
LITTLE_TOKENS = 4
_LITTLE_SECONDS = 0.002
_CLOSE = 1.03
"""Over its bound, a window is left as it is: no prediction is better."""
_PARTS = -1
"""In place of a guest's number."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What riders may do in one step and after it."""

    ride_tokens: int
    """Most tokens of a window in the step."""
    part_seconds: float
    """So long may parts run after the step, together."""
    reason: str
    """For people."""
    end_seconds: float = math.inf
    """So long after the step's begin they end, at the latest."""


_NOTHING = Plan(0, 0.0, "nothing waits")
TOO_LONG = Plan(0, 0.0, "the smallest part takes longer than there is time")
"""It is its guest's doing: another one's part may have time."""
TOO_DEAR = Plan(0, 0.0, "nothing more has room in the step")
"""The same of a window."""


class Planner:
    """Decides step by step. Not for several threads.

    `s = argmax {s : f(c, s) <= SLO}` (FlexLLM, section 6.2) in steps that a window rides in. Parts run one after the
    other with steps on one thread, so LLMStation's Eq. 1 comes down to `N_p * l_p <= SLO_d - l_d0`. Where both wait
    they take turns. The SLO is the terms' bound times a margin that feedback keeps (`Margin`), the TPOT's for each
    request by itself (`TokenPace`).
    """

    def __init__(self, terms: RideTerms, predictor: Predictor) -> None:
        self.predictor = predictor
        self._ttft, self.token_pace = Margin(terms.ttft), TokenPace(terms.tpot)
        self._ttft_seconds = terms.ttft.seconds
        self._plans: dict[tuple[int | None, ...], Plan] = {}
        self._version = -1
        self._parts_turn = False
        self._dry: dict[tuple[bool, int | None], int] = {}
        """Turns in a row that had no room, for parts (True) or windows of each guest whose last one had none. Room for
        one guest is none for another, nor for its own parts when its windows have it."""
        self.rider_seconds = 0.0
        """What riders have made requests wait for so far, all together."""
        self.riders_wait = False
        """Whether, when it was asked last, a window or a part waited."""
        self.holds = False
        """Prompts are held back from the step that is about to begin (`Deferral`); who begins it takes it back."""

    def plan(
        self,
        load: Load,
        waiting_tokens: int,
        has_parts: bool,
        least_part_seconds: float = 0.0,
        rider: int | None = None,
        part_rider: int | None = None,
    ) -> Plan:
        """For the next step; `load` has no riders yet.

        `has_parts`: something waits that needs no engine; the smallest part of it takes `least_part_seconds`. `rider`:
        whose window is next; `part_rider`: whose part. After `TOO_DEAR` it is the turn of another one's window, after
        `TOO_LONG` of another one's part: else nobody's would get on behind it.
        """
        self.riders_wait = has_parts or waiting_tokens > 0
        if not self.riders_wait:
            return _NOTHING
        if self._version != self.predictor.version or len(self._plans) > _MOST_PLANS:
            self._plans.clear()
            self._version = self.predictor.version
        turn = self._parts_turn = has_parts and (not waiting_tokens or not self._parts_turn)
        guest = part_rider if turn else rider
        key = (
            self.token_pace.parts if load.decode_rows else 0,
            load.decode_rows,
            load.decode_context >> 9,
            load.prefill_tokens,
            load.prefill_context >> 9,
            load.row_tokens,
            load.row_context >> 9,
            _PARTS if turn else guest,
        )
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = self._decided(load, turn, guest)
        if 0 < found.part_seconds < least_part_seconds:
            found = TOO_LONG
        if found.ride_tokens or found.part_seconds:
            self._dry.pop((turn, guest), None)
            return found
        return self._least(found, load, turn, guest)

    def drop(self, guest: int) -> None:
        """That guest has gone."""
        self.predictor.drop(guest)
        for parts_turn in (False, True):
            self._dry.pop((parts_turn, guest), None)

    def fitting(self, load: Load) -> int:
        """Of the tokens of the window that `load` has, how many have time, now that its own context is known."""
        bound = self.bound(load)
        if self.predictor.seconds(load) <= _CLOSE * bound:
            return load.ride_tokens
        self.predictor.expect(load.rider, load.ride_context / load.ride_tokens)
        return most_tokens(self.predictor.riding(load, load.rider), bound, load.ride_tokens)

    def bound(self, load: Load) -> float:
        """Seconds that the step may take with all that rides in it and after it."""
        if load.prefill_tokens:
            stretched = _PREFILL_STRETCH * self.predictor.seconds(load.online)
            seconds = min(self._ttft.seconds / _PREFILL_PART, stretched)
        elif load.decode_rows:
            seconds = self._ttft.seconds / _WAIT_PART
        else:
            return self.idle_seconds(self.predictor.seconds(_ONE_ROW))
        return min(seconds, self.token_pace.step_seconds) if load.decode_rows else seconds

    def observe(self, load: Load, seconds: float) -> float:
        """A step was measured, with what rode in it. Returns how much of it was riders' doing, in seconds."""
        by_riders = 0.0
        if load.ride_tokens or load.row_tokens:
            alone = self.predictor.seconds(load.online) if load.has_requests else 0.0
            by_riders = max(0.0, seconds - alone)
        self.rider_seconds += by_riders
        self.predictor.observe(load, seconds)
        return by_riders

    def observe_part(self, phase: str, tokens: int, context: int, seconds: float, rider: int | None = None) -> None:
        """A part of that guest was measured; `context` is what its tokens attend to, summed."""
        self.rider_seconds += seconds
        self.predictor.observe_part(phase, tokens, context, seconds, rider)

    def observe_tpot(self, seconds: float, rider_seconds: float) -> None:
        """What a request that has ended waited for each token, and how much of it was riders' doing."""
        if self.token_pace.observe(seconds, rider_seconds):
            self._plans.clear()

    def observe_first_token(self, seconds: float, rider_seconds: float) -> None:
        """What a request waited for its first token, and how much of it was riders' doing."""
        before = self._ttft.value
        self._ttft.observe(seconds, rider_seconds)
        if before != self._ttft.value:
            self._plans.clear()

    @property
    def kept(self) -> bool:
        """Requests get what they were promised."""
        return self.token_pace.kept and self._ttft.kept

    @property
    def idle_part_seconds(self) -> float:
        """So long may a part run while the engine has no request: the next one waits for its end."""
        return self._ttft.seconds / _IDLE_PART

    def idle_seconds(self, least_seconds: float) -> float:
        """The same for one of a kind of which the smallest takes `least_seconds`."""
        return max(self.idle_part_seconds, min(_IDLE_STRETCH * least_seconds, self._ttft.seconds / _WAIT_PART))

    @property
    def first_token_seconds(self) -> float:
        """So long may a request wait for its first token, for all that is planned."""
        return self._ttft.seconds

    def prefill_seconds(self, load: Load) -> float:
        """What a step with prompts in it takes at most, with what may ride in it."""
        return _PREFILL_STRETCH * self.predictor.seconds(load)

    def part_tokens(self, phase: str, seconds: float, rider: int | None = None) -> int:
        """How large a part of that guest ends in time, 1 at least."""
        return self.predictor.part_tokens(phase, seconds, rider)

    def _decided(self, load: Load, parts_turn: bool, guest: int | None) -> Plan:
        bound = self.bound(load)
        # No guest is looked up for parts: they are planned by their time alone.
        alone = self.predictor.seconds(load)
        if alone >= bound:
            return Plan(0, 0.0, "the step alone takes all the time there is")
        if parts_turn:
            if load.prefill_tokens:
                return Plan(0, 0.0, "a prompt is computed: no parts")
            return Plan(0, bound - alone, "parts run after the step", bound)
        seconds = self.predictor.riding(load, guest)
        tokens = most_tokens(seconds, bound, min(_MOST_TOKENS, self.predictor.most_ride_tokens(load, guest)))
        return Plan(tokens, 0.0, "a window rides") if tokens else TOO_DEAR

    def _least(self, found: Plan, load: Load, parts_turn: bool, guest: int | None) -> Plan:
        """It has no room: after a while a little rides, unless requests do not get what they were promised.

        That holds for steps with requests: when none come, nothing tells that they get it again.
        """
        dry = self._dry[parts_turn, guest] = self._dry.get((parts_turn, guest), 0) + 1
        if dry < PATIENCE_STEPS or (load.has_requests and not self.kept):
            return found
        del self._dry[parts_turn, guest]
        if parts_turn:
            return Plan(0, _LITTLE_SECONDS, "a short part runs, so that riders get on at all")
        if found is TOO_DEAR:
            self.predictor.doubt(guest, PATIENCE_STEPS)
        return Plan(LITTLE_TOKENS, 0.0, "a short window rides, so that riders get on at all")
