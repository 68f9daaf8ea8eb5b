"""What a step of an engine is made of, from what vLLM's scheduler says."""

from types import SimpleNamespace
from typing import Any

from rowen.runtime.vllm.made_of import made_of


def output(scheduled: dict[str, int], cached: dict[str, int], **drafts: list[int]) -> Any:
    """`scheduled`: tokens by request; `cached`: of those that are not new, tokens of their own so far."""
    requests = SimpleNamespace(req_ids=list(cached), num_output_tokens=list(cached.values()))
    return SimpleNamespace(
        num_scheduled_tokens=scheduled,
        scheduled_cached_reqs=requests,
        scheduled_spec_decode_tokens=drafts,
        total_num_scheduled_tokens=sum(scheduled.values()),
    )


def test_prompts_and_next_tokens_are_told_apart() -> None:
    assert made_of(output({"new": 9, "a": 1, "b": 1}, {"a": 1, "b": 30})) == (2, 9)


def test_the_last_token_of_a_prompt_belongs_to_the_prompt() -> None:
    assert made_of(output({"chunk": 1}, {"chunk": 0})) == (0, 1)


def test_what_was_preempted_is_computed_again_as_a_prompt_is() -> None:
    assert made_of(output({"again": 12, "a": 1}, {"again": 5, "a": 2})) == (1, 12)


def test_drafts_are_neither() -> None:
    assert made_of(output({"a": 4, "b": 1}, {"a": 3, "b": 3}, a=[7, 8, 9])) == (2, 0)


def test_another_version_says_nothing() -> None:
    assert made_of(SimpleNamespace(total_num_scheduled_tokens=3)) == (0, 0)
    assert made_of(output({}, {"gone": 1})) == (0, 0)
