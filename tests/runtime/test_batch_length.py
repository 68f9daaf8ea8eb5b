"""Which answers the memory has cut: the model's own length cuts as it does online."""

from typing import Any

import pytest

from rowen.runtime.batch.serving.length import Length, cut_by_memory

WHOLE = Length(model=100, fitting=100)
SHORT = Length(model=100, fitting=40)


def cut(prompt: int, request: dict[str, Any], length: Length, ends: tuple[str, ...] = ("length",)) -> str | None:
    answer = {"choices": [{"finish_reason": end} for end in ends], "usage": {"prompt_tokens": prompt}}
    return cut_by_memory(request, answer, length)


@pytest.mark.parametrize(
    ("prompt", "request_", "length", "ends"),
    [
        (60, {"max_tokens": 41}, WHOLE, ("length",)),
        (60, {"max_tokens": 1000}, WHOLE, ("length",)),
        (30, {"max_tokens": 10}, SHORT, ("length",)),
        (30, {"max_tokens": 9}, SHORT, ("length",)),
        (30, {}, SHORT, ("length",)),
        (30, {"max_tokens": None}, SHORT, ("length",)),
        (39, {"max_tokens": 1}, SHORT, ("length",)),
        (30, {"max_tokens": 50}, SHORT, ("stop",)),
        (30, {"max_tokens": 50, "n": 2}, SHORT, ("stop", "stop")),
        (30, {"max_tokens": 50, "prompt": ["a", "b"]}, SHORT, ("length", "length")),
    ],
)
def test_what_is_not_cut(prompt: int, request_: dict[str, Any], length: Length, ends: tuple[str, ...]) -> None:
    assert cut(prompt, request_, length, ends) is None


@pytest.mark.parametrize("answer", [{"error": {"message": "x"}}, {"data": []}, {"choices": []}, [], None])
def test_other_answers_are_not_cut(answer: object) -> None:
    assert cut_by_memory({"max_tokens": 99}, answer, SHORT) is None


@pytest.mark.parametrize(
    ("prompt", "request_", "ends"),
    [
        (30, {"max_tokens": 11}, ("length",)),
        (30, {"max_completion_tokens": 11}, ("length",)),
        (30, {"max_completion_tokens": 11, "max_tokens": 2}, ("length",)),
        (30, {"max_tokens": 11, "n": 2}, ("stop", "length")),
    ],
)
def test_what_the_memory_cut_is_told_in_numbers(prompt: int, request_: dict[str, Any], ends: tuple[str, ...]) -> None:
    expected = "and 11 more are wanted, the model takes 100, of which 40 fit into the job's memory"
    assert cut(prompt, request_, SHORT, ends) == f"the prompt has {prompt} tokens {expected}"


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("max_output_tokens", {"object": "response", "incomplete_details": {"reason": "max_output_tokens"}}),
        ("max_tokens", {"type": "message", "stop_reason": "max_tokens"}),
    ],
)
def test_the_other_generating_routes_are_judged_too(name: str, answer: dict[str, Any], ends: bool) -> None:
    """`/v1/responses` and `/v1/messages`."""
    whole = {"incomplete_details": None} if "object" in answer else {"stop_reason": "end_turn"}
    told = answer | {"usage": {"input_tokens": 30}} | (whole if ends else {})
    assert (cut_by_memory({name: 11}, told, SHORT) is None) is ends
    assert cut_by_memory({name: 10}, told, SHORT) is None
