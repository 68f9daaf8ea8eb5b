"""What a step was made of, and took."""

from dataclasses import dataclass, replace

from rowen.runtime.coserve.load import Load


@dataclass(frozen=True)
class Measured:
    """One step."""

    load: Load
    seconds: float
    processor_seconds: float
    """Of the thread that computes: less than `seconds` by what others had of the core."""

    @property
    def undisturbed(self) -> "Measured":
        """The step with its processor time in place of its time."""
        return replace(self, seconds=self.processor_seconds)
