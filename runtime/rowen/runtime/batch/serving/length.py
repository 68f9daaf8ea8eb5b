"""Answers that the job's memory would cut."""

from dataclasses import dataclass
from typing import Any

_WANTED = ("max_completion_tokens", "max_output_tokens", "max_tokens")
"""How the routes call the number of tokens that is wanted."""


@dataclass(frozen=True)
class Length:
    """How many tokens a sequence may have, prompt and answer together."""

    model: int
    """Those that the model takes."""
    fitting: int
    """Those of them for which the job's memory is enough."""


def cut_by_memory(request: dict[str, Any], answer: Any, length: Length) -> str | None:
    """Says so in numbers where an answer ends because memory did, and not with the tokens that were wanted.

    The model's own length cuts what is wanted, as it does online. A request of several prompts is not judged.
    """
    wanted = wanted_tokens(request)
    if length.fitting >= length.model or wanted is None or not is_cut(request, answer):
        return None
    usage = answer["usage"]
    prompt = usage["prompt_tokens"] if "prompt_tokens" in usage else usage["input_tokens"]
    if min(wanted, length.model - prompt) <= length.fitting - prompt:
        return None
    return (
        f"the prompt has {prompt} tokens and {wanted} more are wanted, the model takes {length.model}, of which "
        f"{length.fitting} fit into the job's memory"
    )


def wanted_tokens(request: dict[str, Any]) -> int | None:
    """How many tokens an answer may have, where the request says so."""
    wanted = next((request[name] for name in _WANTED if request.get(name)), None)
    return wanted if isinstance(wanted, int) else None


def is_cut(request: dict[str, Any], answer: Any) -> bool:
    """Whether the answer, one of a single prompt, ends because it may be no longer."""
    if not isinstance(answer, dict):
        return False
    if answer.get("object") == "response":
        return (answer.get("incomplete_details") or {}).get("reason") == "max_output_tokens"
    if answer.get("type") == "message":
        return bool(answer.get("stop_reason") == "max_tokens")
    choices = answer.get("choices")
    if not choices or len(choices) != (request.get("n") or 1):
        return False
    return any(choice.get("finish_reason") == "length" for choice in choices)
