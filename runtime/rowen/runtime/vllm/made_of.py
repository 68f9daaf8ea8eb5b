"""What a step of vLLM's is made of, as every engine's device is told."""

from typing import Any


def made_of(output: Any) -> tuple[int, int]:
    """Requests that get their next token in the step, and tokens of prompts; zeros where vLLM does not tell it so.

    `output`: the scheduler's. A request that has tokens of its own and gets one more is decoding, drafts of it aside;
    one that was preempted is computed again, as a prompt is.
    """
    try:
        cached, counts, drafts = output.scheduled_cached_reqs, output.num_scheduled_tokens, _drafts(output)
        decode_rows = sum(
            generated > 0 and counts[name] - drafts.get(name, 0) == 1
            for name, generated in zip(cached.req_ids, cached.num_output_tokens, strict=True)
        )
        return decode_rows, max(0, output.total_num_scheduled_tokens - decode_rows - sum(drafts.values()))
    except (AttributeError, KeyError, TypeError, ValueError):
        return 0, 0


def _drafts(output: Any) -> dict[str, int]:
    """Tokens by request that were guessed, and are looked at beside its next one."""
    return {name: len(tokens) for name, tokens in output.scheduled_spec_decode_tokens.items()}
