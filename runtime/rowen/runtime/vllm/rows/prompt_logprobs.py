"""Rows that want the log probabilities of their prompts: each token of these has logits of the whole vocabulary."""

from typing import TYPE_CHECKING

from rowen.runtime.coserve.training.memory import HEAD_BYTES

if TYPE_CHECKING:
    from vllm.v1.request import Request

_BYTES = 3 * 4
"""Of a token, for each entry of the vocabulary: logits in the model's type and as float32, and their softmax."""


def most_tokens(vocabulary: int) -> int:
    """Of such a row in one step, so that its logits take no more than those of fine-tuning; one at least."""
    return max(1, HEAD_BYTES // (_BYTES * vocabulary))


def has_logits(row: "Request") -> bool:
    """Whether its next tokens have them."""
    wanted = row.sampling_params is not None and row.sampling_params.prompt_logprobs is not None
    return wanted and row.num_computed_tokens < row.num_prompt_tokens
