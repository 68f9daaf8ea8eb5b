"""What a report tells of an engine's steps, and of what rides in them."""

from typing import Annotated, Literal

from pydantic import Field

from rowen.crds.base import ReadModel

TenantMode = Literal["Preempt", "CoServe"]
"""How offline work shares a device: behind its gate, or inside its engine."""

Rate = Annotated[float, Field(ge=0.0)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


class StepFigures(ReadModel):
    """What an engine's steps were made of over the window, on average; to three digits."""

    per_second: Rate
    """Steps per second of the window."""
    seconds: Rate
    """Time that a step took."""
    decode_rows: Rate = 0.0
    """Requests that got their next token in a step."""
    prefill_tokens: Rate = 0.0
    """Tokens of prompts in a step."""


class CoServing(ReadModel):
    """What rides in the engine of a device, over the window; rates to three digits."""

    seats: Annotated[int, Field(ge=0, le=64)]
    """Jobs that the engine takes in at once."""
    riding_fraction: Fraction = 0.0
    """Fraction of its steps in which something rode."""
    forward_tokens_per_second: Rate = 0.0
    """Tokens of fine-tuning that went forward inside steps."""
    solo_tokens_per_second: Rate = 0.0
    """Tokens of fine-tuning that went forward outside of steps: while there were no requests, or only held prompts."""
    backward_tokens_per_second: Rate = 0.0
    """Tokens of fine-tuning that went backward."""
    row_tokens_per_second: Rate = 0.0
    """Tokens of batch rows."""
    ended: Annotated[str, Field(max_length=256)] | None = None
    """Why nothing rides in this engine any more, until it is started anew; it serves on."""
