"""What an engine's step is made of, as its time is predicted from it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """One step. Rows are tokens computed in it; context is what they attend to, summed over rows."""

    decode_rows: int = 0
    """Requests that get their next token."""
    decode_context: int = 0
    prefill_tokens: int = 0
    """Tokens of prompts."""
    prefill_context: int = 0
    ride_tokens: int = 0
    """Of a fine-tuning window."""
    ride_context: int = 0
    row_tokens: int = 0
    """Of batch rows, decode and prefill alike."""
    row_context: int = 0
    rider: int | None = None
    """Whose window it is; None: whoever's."""

    @property
    def has_requests(self) -> bool:
        """Whether the service's own requests are in it."""
        return self.decode_rows > 0 or self.prefill_tokens > 0

    @property
    def online(self) -> "Load":
        """What of it is the service's own requests."""
        return Load(self.decode_rows, self.decode_context, self.prefill_tokens, self.prefill_context)
