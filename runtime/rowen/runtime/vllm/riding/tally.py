"""What an engine's steps were made of, counted."""

from dataclasses import asdict, dataclass

from rowen.crds.ride.messages import StepSums
from rowen.runtime.coserve.learner import Part, Phase
from rowen.runtime.coserve.load import Load


@dataclass
class Tally:
    """`StepSums` on their way."""

    steps: int = 0
    seconds: float = 0.0
    decode_rows: int = 0
    prefill_tokens: int = 0
    riding_steps: int = 0
    forward_tokens: int = 0
    solo_tokens: int = 0
    backward_tokens: int = 0
    riding_seconds: float = 0.0
    added_seconds: float = 0.0
    row_tokens: int = 0

    def step(self, load: Load, seconds: float, ridden_tokens: int) -> None:
        """With what rode in it, and the tokens of the window that it brought through."""
        self.steps += 1
        self.seconds += seconds
        self.decode_rows += load.decode_rows
        self.prefill_tokens += load.prefill_tokens
        self.row_tokens += load.row_tokens
        self.forward_tokens += ridden_tokens
        self.riding_steps += ridden_tokens > 0 or load.row_tokens > 0

    def added(self, seconds: float) -> None:
        """By which what rode made a step longer."""
        self.added_seconds += seconds

    def came(self, seconds: float) -> None:
        """That it took to take tasks in, and to let them go."""
        self.riding_seconds += seconds

    def part(self, part: Part, seconds: float) -> None:
        """Between steps or while idle."""
        self.riding_seconds += seconds
        if part.phase is Phase.FORWARD:
            self.solo_tokens += part.through_tokens
        elif part.phase is Phase.BACKWARD:
            self.backward_tokens += part.through_tokens

    def sums(self) -> StepSums:
        """So far."""
        return StepSums(**asdict(self))
