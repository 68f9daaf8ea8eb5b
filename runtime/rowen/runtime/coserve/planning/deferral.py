"""Whether prompts that have just come wait for more, to be computed in one step (LLMStation, section 4.1).

A step with a prompt in it has no room for riders, or next to none, however short the prompt is. So two prompts in one
step take one step of theirs instead of two. What that costs is time to the first token, of which there is as much as
the objective leaves.
"""

from dataclasses import dataclass, replace

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.planner import Planner

_RESERVE = 0.1
"""Part of the TTFT's bound that nobody waits for: for what the engine does not see of a request's way to the client and
back, and for steps that take longer than was predicted. Without more prompts each one waits as long as it may, so all
of them would be as near to the bound as the prediction is good."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Prompts of which nothing is computed yet, and the step that comes next without them."""

    prompts: int
    tokens: int
    """Of all of them."""
    context: int
    """What these attend to, summed."""
    seconds: float
    """For which the first of them has waited since it came."""
    load: Load
    """The next step's online requests."""
    free_tokens: int
    """Of prompts, for which the next step has room."""
    free_seats: int
    """Requests that may begin in it."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of riders and of times, seconds each."""

    riding: bool
    """Something of fine-tuning waits for its turn, and the next step has time for it."""
    kept: bool
    """Requests get what they were promised."""
    step: float
    """The next step may take so long, with parts after it: until then nothing is decided anew."""
    prefill: float
    """A step with all of the prompts takes so long."""
    bound: float
    """First tokens may take so long."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of them in the next step."""

    hold: bool
    """They wait, all of them; else they are the scheduler's, as if there were no deferral."""
    reason: str
    """For people."""


def decided(waiting: Waiting, outlook: Outlook) -> Decision:
    """Held is what can be held for one step more, and somebody gains by it."""
    late = waiting.seconds + outlook.step + outlook.prefill > outlook.bound * (1 - _RESERVE)
    released = {
        "nothing rides": not outlook.riding,
        "requests do not get what they were promised": not outlook.kept,
        "a prompt is computed anyway": waiting.load.prefill_tokens > 0,
        "they fill a step": waiting.tokens >= waiting.free_tokens,
        "they fill the seats": waiting.prompts >= waiting.free_seats,
        "they have no time left": late,
    }
    reason = next((reason for reason, applies in released.items() if applies), None)
    return Decision(reason is None, reason or "they may wait for more")


class Deferral:
    """Decides with the planner's predictor, bounds and feedback. Not for several threads."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner

    def decide(self, waiting: Waiting) -> Decision:
        """Before each step for which prompts wait."""
        planner = self.planner
        together = replace(waiting.load, prefill_tokens=waiting.tokens, prefill_context=waiting.context)
        step = planner.bound(waiting.load)
        outlook = Outlook(
            riding=planner.riders_wait and step > planner.predictor.seconds(waiting.load),
            kept=planner.kept,
            step=step,
            prefill=planner.prefill_seconds(together),
            bound=planner.first_token_seconds,
        )
        return decided(waiting, outlook)
