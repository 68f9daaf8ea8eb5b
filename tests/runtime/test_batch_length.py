"""How long an answer may be: the model's length cuts it, the memory refuses it."""

import pytest

from rowen.runtime.batch.engine import Length, UnanswerableError, answer_tokens

WHOLE = Length(model=100, fitting=100)
SHORT = Length(model=100, fitting=40)


@pytest.mark.parametrize(
    ("prompt", "wanted", "length", "tokens"),
    [
        (60, 40, WHOLE, 40),
        (60, 41, WHOLE, 40),
        (60, 39, WHOLE, 39),
        (60, None, WHOLE, 40),
        (99, 7, WHOLE, 1),
        (30, 10, SHORT, 10),
        (30, 9, SHORT, 9),
        (30, None, SHORT, 10),
        (39, 1, SHORT, 1),
    ],
)
def test_what_an_answer_may_have(prompt: int, wanted: int | None, length: Length, tokens: int) -> None:
    assert answer_tokens(prompt, wanted, length) == tokens


@pytest.mark.parametrize(
    ("prompt", "wanted", "length", "message"),
    [
        (100, None, WHOLE, "the prompt has 100 tokens, the model takes 100"),
        (101, 1, WHOLE, "the prompt has 101 tokens, the model takes 100"),
        (40, None, SHORT, "the prompt has 40 tokens, the model takes 100, of which 40 fit into the job's memory"),
        (
            30, 11, SHORT,
            "the prompt has 30 tokens and 11 more are wanted,"
            " the model takes 100, of which 40 fit into the job's memory",
        ),
        (
            39, 1000, SHORT,
            "the prompt has 39 tokens and 1000 more are wanted,"
            " the model takes 100, of which 40 fit into the job's memory",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_numbers(
    prompt: int, wanted: int | None, length: Length, message: str
) -> None:
    with pytest.raises(UnanswerableError) as caught:
        answer_tokens(prompt, wanted, length)
    assert str(caught.value) == message
