"""One step of vLLM's out of two that were scheduled one after the other."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput


def add_to(step: "SchedulerOutput", more: "SchedulerOutput") -> None:
    """Puts what `more` holds into `step`. No request is in both."""
    step.scheduled_new_reqs.extend(more.scheduled_new_reqs)
    _add_cached(step, more)
    step.num_scheduled_tokens.update(more.num_scheduled_tokens)
    step.total_num_scheduled_tokens += more.total_num_scheduled_tokens
    step.finished_req_ids |= more.finished_req_ids
    step.preempted_req_ids = (step.preempted_req_ids or set()) | (more.preempted_req_ids or set())
    step.free_encoder_mm_hashes.extend(more.free_encoder_mm_hashes)
    step.has_structured_output_requests |= more.has_structured_output_requests
    step.pending_structured_output_tokens |= more.pending_structured_output_tokens
    step.new_block_ids_to_zero = [*(step.new_block_ids_to_zero or ()), *(more.new_block_ids_to_zero or ())] or None
    step.kv_cache_block_copies = [*(step.kv_cache_block_copies or ()), *(more.kv_cache_block_copies or ())] or None


def _add_cached(step: "SchedulerOutput", more: "SchedulerOutput") -> None:
    cached, added = step.scheduled_cached_reqs, more.scheduled_cached_reqs
    cached.req_ids.extend(added.req_ids)
    cached.resumed_req_ids |= added.resumed_req_ids
    cached.new_token_ids.extend(added.new_token_ids)
    cached.all_token_ids.update(added.all_token_ids)
    cached.new_block_ids.extend(added.new_block_ids)
    cached.num_computed_tokens.extend(added.num_computed_tokens)
    cached.num_output_tokens.extend(added.num_output_tokens)
