"""What a step of vLLM's is made of."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rowen.runtime.coserve.load import Load
from rowen.runtime.vllm.rows.marker import is_row

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput


def load_of(output: "SchedulerOutput") -> Load:
    """Without what rides of fine-tuning.

    A request that has tokens of its own and gets one more is decoding; one that was preempted is computed again, as a
    prompt is.
    """
    counts = output.num_scheduled_tokens
    decode_rows = decode_context = prefill_tokens = prefill_context = row_tokens = row_context = 0
    cached = output.scheduled_cached_reqs
    requests = [(request.req_id, request.num_computed_tokens, 0) for request in output.scheduled_new_reqs]
    requests += zip(cached.req_ids, cached.num_computed_tokens, cached.num_output_tokens, strict=True)
    for name, computed, generated in requests:
        tokens = counts.get(name, 0)
        context = _context(computed, tokens)
        if is_row(name):
            row_tokens += tokens
            row_context += context
        elif tokens == 1 and generated > 0:
            decode_rows += 1
            decode_context += context
        else:
            prefill_tokens += tokens
            prefill_context += context
    return Load(
        decode_rows=decode_rows,
        decode_context=decode_context,
        prefill_tokens=prefill_tokens,
        prefill_context=prefill_context,
        row_tokens=row_tokens,
        row_context=row_context,
    )


def stepping(output: "SchedulerOutput") -> Iterator[tuple[str, int]]:
    """The service's own requests that are in the step and have tokens, with how many they have."""
    cached, counts = output.scheduled_cached_reqs, output.num_scheduled_tokens
    for name, generated in zip(cached.req_ids, cached.num_output_tokens, strict=True):
        if generated > 0 and name in counts and not is_row(name):
            yield name, generated


def _context(computed: int, tokens: int) -> int:
    """What so many tokens attend to, themselves included, after so many that are computed already."""
    return tokens * computed + tokens * (tokens + 1) // 2
