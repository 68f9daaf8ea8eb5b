"""Answers that the job's memory would cut."""

from dataclasses import dataclass
from typing import Any


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
    wanted = request.get("max_completion_tokens") or request.get("max_tokens")
    if length.fitting >= length.model or not isinstance(wanted, int) or not _is_cut(request, answer):
        return None
    prompt = answer["usage"]["prompt_tokens"]
    if min(wanted, length.model - prompt) <= length.fitting - prompt:
        return None
    return (
        f"the prompt has {prompt} tokens and {wanted} more are wanted, the model takes {length.model}, of which "
        f"{length.fitting} fit into the job's memory"
    )


def _is_cut(request: dict[str, Any], answer: Any) -> bool:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not choices or len(choices) != (request.get("n") or 1):
        return False
    return any(choice.get("finish_reason") == "length" for choice in choices)
