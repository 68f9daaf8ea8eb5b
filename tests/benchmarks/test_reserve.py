"""What Harli's formula keeps free, and what requests ask for at once."""

import pytest
from traffic.kv_use import Holding
from traffic.reserve import Reserve, growths, short_fraction


def test_the_reserve_is_what_all_sequences_write_while_memory_comes_back():
    reserve = Reserve(slo_tpot_seconds=0.05, max_sequences=100)
    assert reserve.tokens(0.05) == pytest.approx(100)
    assert reserve.tokens(0.01) == pytest.approx(20)


HELD = [
    Holding(start=0.0, decode_start=1.0, end=11.0, prompt_tokens=100, output_tokens=50),
    Holding(start=5.0, decode_start=6.0, end=7.0, prompt_tokens=30, output_tokens=5),
    Holding(start=12.0, decode_start=13.0, end=14.0, prompt_tokens=10, output_tokens=1),
]


def test_what_is_needed_at_once_is_a_prompt_and_what_others_have_written():
    # The second comes when the first has written 20 tokens, 10 of them in the last 2 seconds.
    assert growths(HELD, 2.0) == [100, 30 + 10, 10 - (100 + 45)]


def test_in_no_time_only_prompts_are_needed():
    assert growths(HELD, 0.0) == [0, 0, 0]
    assert growths(HELD, 1e-6) == pytest.approx([100, 30, 10], abs=1)


def test_how_often_a_reserve_is_too_little():
    assert short_fraction([1, 5, 9, 10], 5.0) == 0.5
    assert short_fraction([1, 5], 5.0) == 0
