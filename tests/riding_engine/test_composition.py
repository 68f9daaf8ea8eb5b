"""What a step is made of, from what vLLM's scheduler says."""

from types import SimpleNamespace
from typing import Any

from rowen.runtime.coserve.load import Load
from rowen.runtime.vllm.riding.composition import load_of, stepping


def step(new: dict[str, tuple[int, int]], cached: dict[str, tuple[int, int, int]]) -> Any:
    """By request how many tokens are computed already, and now; of the cached ones also how many were generated."""
    return SimpleNamespace(
        num_scheduled_tokens={name: tokens for name, (_, tokens, *_) in {**new, **cached}.items()},
        scheduled_new_reqs=[
            SimpleNamespace(req_id=name, num_computed_tokens=computed) for name, (computed, _) in new.items()
        ],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(cached),
            num_computed_tokens=[computed for computed, _, _ in cached.values()],
            num_output_tokens=[generated for _, _, generated in cached.values()],
        ),
    )


def test_a_prompt_attends_to_itself_and_to_what_was_there() -> None:
    assert load_of(step({"one": (0, 4)}, {})) == Load(prefill_tokens=4, prefill_context=1 + 2 + 3 + 4)
    assert load_of(step({"one": (16, 2)}, {})) == Load(prefill_tokens=2, prefill_context=17 + 18)


def test_a_prompt_of_one_token_is_a_prompt() -> None:
    assert load_of(step({"one": (0, 1)}, {})) == Load(prefill_tokens=1, prefill_context=1)


def test_who_has_tokens_and_gets_one_more_decodes() -> None:
    found = load_of(step({}, {"one": (9, 1, 1), "other": (19, 1, 7)}))
    assert found == Load(decode_rows=2, decode_context=10 + 20)


def test_the_end_of_a_prompt_is_a_prompt_and_what_is_computed_again_too() -> None:
    found = load_of(step({}, {"the rest": (31, 1, 0), "preempted": (0, 3, 5)}))
    assert found == Load(prefill_tokens=4, prefill_context=32 + 6)


def test_rows_are_told_apart() -> None:
    found = load_of(step({"cmpl-rowen-row-0-0": (0, 2)}, {"cmpl-rowen-row-1-0": (5, 1, 2), "cmpl-3": (8, 1, 2)}))
    assert found == Load(decode_rows=1, decode_context=9, row_tokens=3, row_context=3 + 6)


def test_a_request_that_waits_in_the_batch_counts_nothing() -> None:
    found = step({}, {"one": (9, 1, 1), "waits": (7, 0, 3)})
    del found.num_scheduled_tokens["waits"]
    assert load_of(found) == Load(decode_rows=1, decode_context=10)


def test_who_has_tokens_and_is_in_the_step() -> None:
    found = step(
        {"new": (0, 4)},
        {
            "one": (9, 1, 1),
            "other": (19, 1, 7),
            "prompt": (31, 1, 0),
            "waits": (7, 0, 3),
            "cmpl-rowen-row-1-0": (5, 1, 2),
        },
    )
    del found.num_scheduled_tokens["waits"]
    assert list(stepping(found)) == [("one", 1), ("other", 7)]
