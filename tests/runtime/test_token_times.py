"""Token events of the dialects that vLLM streams."""

import pytest

from rowen.runtime.vllm.token_times import TokenTimes

COMPLETION = b'data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n'
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
CHAT = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"completion_tokens":3}}\n\n'
SECOND_CHOICE = b'data: {"choices":[{"index":1,"text":"a","finish_reason":null}]}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (COMPLETION, 1),
        (COMPLETION + COMPLETION, 2),
        (ROLE, 0),
        (CHAT, 1),
        (USAGE, 0),
        (SECOND_CHOICE, 0),
        (DONE, 0),
        (b": ping\n\n", 0),
        (b'data: {"error":{"message":"x"}}\n\n', 0),
        (b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"a"}}\n\n', 1),
        (b'event: message_delta\ndata: {"type":"message_delta","delta":{}}\n\n', 0),
        (b'event: x\ndata: {"type":"response.output_text.delta","delta":"a"}\n\n', 1),
        (b'event: x\ndata: {"type":"response.created"}\n\n', 0),
        (b"data: 7\n\n", 0),
    ],
)
def test_counts_tokens(body: bytes, tokens: int) -> None:
    times = TokenTimes(0)
    times.feed(body, 10)
    assert times.tokens == tokens


def test_times_are_those_of_the_first_and_the_last_token() -> None:
    times = TokenTimes(100)
    times.feed(ROLE, 120)
    times.feed(CHAT, 150)
    times.feed(CHAT, 170)
    times.feed(CHAT, 210)
    times.feed(USAGE + DONE, 900)
    assert (times.ttft_ns, times.tpot_ns, times.tokens) == (50, 30, 3)


def test_without_tokens_there_are_no_times() -> None:
    assert (TokenTimes(100).ttft_ns, TokenTimes(100).tpot_ns) == (0, 0)


def test_the_time_per_token_is_that_between_tokens() -> None:
    times = TokenTimes(100)
    seen = []
    for body, now in ((CHAT, 150), (CHAT, 190), (CHAT + CHAT, 200)):
        times.feed(body, now)
        seen.append((times.tokens, times.ttft_ns, times.tpot_ns))
    # One token has none after it; two are 40 apart; four take 50 in all.
    assert seen == [(1, 50, 0), (2, 50, 40), (4, 50, 16)]
