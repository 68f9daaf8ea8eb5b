"""What is read in an engine's answers."""

from typing import Any

import pytest

from rowen.runtime.batch.riding.answers import all_tokens, is_aborted, is_as_long

MESSAGE = {
    "type": "message",
    "stop_reason": "max_tokens",
    "usage": {"input_tokens": 3, "cache_read_input_tokens": 16, "output_tokens": 5},
}
RESPONSE = {"object": "response", "status": "completed", "usage": {"input_tokens": 3, "output_tokens": 5}}


def chosen(*reasons: str, prompt: int = 4, answered: int = 6) -> dict[str, Any]:
    return {
        "choices": [{"finish_reason": reason} for reason in reasons],
        "usage": {"prompt_tokens": prompt, "completion_tokens": answered, "total_tokens": prompt + answered},
    }


@pytest.mark.parametrize(("answer", "aborted"), [
    (chosen("stop", "length"), False), (chosen("stop", "abort"), True),
    (MESSAGE, False), (MESSAGE | {"stop_reason": None}, True),
    (RESPONSE, False), (RESPONSE | {"status": "incomplete"}, False), (RESPONSE | {"status": "cancelled"}, True),
    ({"tokens": [1]}, False), ([], False),
])  # fmt: skip
def test_an_answer_that_was_broken_off_says_so(answer: Any, aborted: bool) -> None:
    assert is_aborted(answer) == aborted


@pytest.mark.parametrize(("answer", "tokens"), [
    (chosen("stop"), 10), (MESSAGE, 24), (RESPONSE, 8), ({"usage": {"prompt_tokens": 4, "total_tokens": 4}}, 4),
    ({"usage": None}, 0), ([], 0),
])  # fmt: skip
def test_tokens_of_every_route_are_counted(answer: Any, tokens: int) -> None:
    assert all_tokens(answer) == tokens


@pytest.mark.parametrize(("request_", "answer", "long"), [
    ({}, chosen("length", prompt=4, answered=96), True),
    ({}, chosen("length", prompt=4, answered=95), False),
    # Four that are short together have more tokens than a sequence.
    ({"n": 4, "max_tokens": 30}, chosen(*["length"] * 4, prompt=4, answered=120), False),
    ({"n": 2}, chosen("length", "length", prompt=4, answered=192), True),
    # Only one of them is cut, at what is left of the sequence.
    ({"n": 2, "max_tokens": 97}, chosen("length", "stop", prompt=4, answered=100), True),
    ({"n": 2, "max_tokens": 97}, chosen("length", "stop", prompt=4, answered=60), False),
    ({"max_tokens": 5}, MESSAGE, False), ({}, MESSAGE | {"usage": {"input_tokens": 40, "output_tokens": 60}}, True),
])  # fmt: skip
def test_what_cuts_an_answer_is_the_sequences_length(request_: dict[str, Any], answer: Any, long: bool) -> None:
    assert is_as_long(request_, answer, 100) == long
