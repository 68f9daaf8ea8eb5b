"""How much of a row is read at once whose prompt's log probabilities are wanted."""

from types import SimpleNamespace
from typing import Any

import pytest

from rowen.runtime.vllm.rows.prompt_logprobs import has_logits, most_tokens


def test_its_logits_take_as_much_as_fine_tunings() -> None:
    assert most_tokens(151_936) == 18
    assert 18 * 151_936 * 12 <= 32 * 2**20 < 19 * 151_936 * 12
    assert most_tokens(10**9) == 1


@pytest.mark.parametrize(
    ("wanted", "computed", "has"),
    [
        (SimpleNamespace(prompt_logprobs=None), 0, False),
        (SimpleNamespace(prompt_logprobs=0), 0, True),
        (SimpleNamespace(prompt_logprobs=5), 39, True),
        # Generated ones are sampled from.
        (SimpleNamespace(prompt_logprobs=5), 40, False),
        # An embedding.
        (None, 0, False),
    ],
)
def test_tokens_of_its_prompt_have_them(wanted: Any, computed: int, has: bool) -> None:
    row: Any = SimpleNamespace(sampling_params=wanted, num_computed_tokens=computed, num_prompt_tokens=40)
    assert has_logits(row) is has
