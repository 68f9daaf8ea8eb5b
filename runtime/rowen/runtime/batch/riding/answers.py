"""What an engine's answer to a row says."""

from typing import Any

from rowen.runtime.batch.serving.length import wanted_tokens


def is_aborted(answer: Any) -> bool:
    """Whether the engine ended while it worked on the row, where the answer says so. `/v1/responses` may not."""
    if not isinstance(answer, dict):
        return False
    if answer.get("type") == "message":
        return answer.get("stop_reason") is None
    if answer.get("object") == "response":
        return bool(answer.get("status") == "cancelled")
    return any(choice.get("finish_reason") == "abort" for choice in answer.get("choices") or ())


def all_tokens(answer: Any) -> int:
    """Tokens of prompt and all choices together; 0 where it does not say."""
    prompt, answered = _tokens(answer)
    return prompt + answered


def is_as_long(request: dict[str, Any], answer: Any, most: int) -> bool:
    """Whether an answer that is cut, one of a single prompt, is so because a sequence has `most` tokens at most.

    Of several choices only all tokens together are known: what was wanted of each decides, or else their mean.
    """
    prompt, answered = _tokens(answer)
    choices = len(answer.get("choices") or ()) if isinstance(answer, dict) else 0
    if choices < 2 or prompt + answered < most:
        return prompt + answered >= most
    wanted = wanted_tokens(request)
    return prompt + (wanted or answered / choices) >= most


def _tokens(answer: Any) -> tuple[int, int]:
    """Of the prompt, and of the answer."""
    usage = (answer.get("usage") if isinstance(answer, dict) else None) or {}
    if "input_tokens" not in usage:
        prompt = int(usage.get("prompt_tokens") or 0)
        return prompt, max(0, int(usage.get("total_tokens") or 0) - prompt)
    # Those of `/v1/messages` that the prefix cache had are counted by themselves.
    cached = (usage.get("cache_creation_input_tokens"), usage.get("cache_read_input_tokens"))
    prompt = sum(int(tokens or 0) for tokens in (usage["input_tokens"], *cached))
    return prompt, int(usage.get("output_tokens") or 0)
