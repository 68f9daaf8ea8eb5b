"""How much of a text is told."""

import pytest

from rowen.crds.text.clip import clipped


@pytest.mark.parametrize(
    ("text", "most", "found"), [("", 3, ""), ("abc", 3, "abc"), ("abcd", 3, "ab…"), ("abcdef", 5, "abcd…")]
)
def test_a_text_that_is_too_long_ends_with_a_sign_of_it(text: str, most: int, found: str) -> None:
    assert clipped(text, most) == found
