"""The engine's times and its KV cache, by hand."""

import numpy as np
import pytest

from rowen.simulator.node.engine import NONE, Engine, Served, peak_tokens, serve
from rowen.simulator.requests import EMPTY, Requests

ENGINE = Engine(
    prefill_seconds=0.5, prefill_tokens_per_second=100.0, decode_seconds=0.1, decode_seconds_per_request=0.02
)


def requests(*rows: tuple[float, float, float]) -> Requests:
    return Requests(*(np.array(column, dtype=float) for column in zip(*rows, strict=True)))


def test_one_request_is_prefilled_and_then_decoded() -> None:
    served = serve(requests((10.0, 150, 30)), NONE, ENGINE)
    assert served.prefills.tolist() == [10.0]
    assert served.decodes.tolist() == pytest.approx([12.0])
    assert served.ends.tolist() == pytest.approx([15.0])


def test_prefills_wait_for_one_another_and_a_batch_is_slower() -> None:
    served = serve(requests((0.0, 50, 30), (0.5, 50, 10)), NONE, ENGINE)
    assert served.prefills.tolist() == pytest.approx([0.0, 1.0])
    assert served.decodes.tolist() == pytest.approx([1.0, 2.0])
    # The first decodes alone when it begins; the second finds it in the batch.
    assert served.ends.tolist() == pytest.approx([1.0 + 30 * 0.1, 2.0 + 10 * 0.12])


def test_a_request_waits_for_the_prefills_of_the_stretch_before() -> None:
    before = serve(requests((0.0, 150, 30)), NONE, ENGINE)
    served = serve(requests((1.0, 50, 1)), before, ENGINE)
    assert served.decodes.tolist() == pytest.approx([2.0, 3.0])


def test_what_came_before_keeps_its_times() -> None:
    before = serve(requests((0.0, 150, 30)), NONE, ENGINE)
    assert serve(EMPTY, before, ENGINE).ends.tolist() == before.ends.tolist()


def test_the_cache_grows_with_each_token_until_the_request_ends() -> None:
    served = Served(requests((0.0, 100, 50)), np.array([1.0]), np.array([2.0]), np.array([12.0]))
    peaks = peak_tokens(served, np.arange(0.0, 21.0, 5.0))
    # 100 from the prefill on, five more in each second of decoding; in the second part up to 150 when it ends.
    assert peaks.tolist() == pytest.approx([115.0, 140.0, 150.0, 0.0])


def test_two_requests_are_held_together() -> None:
    served = Served(
        requests((0.0, 100, 10), (0.0, 200, 10)), np.array([0.0, 4.0]), np.array([0.0, 4.0]), np.array([5.0, 9.0])
    )
    # Just before the first ends at 5 s: 100 + 10, and 200 + 2.
    assert peak_tokens(served, np.array([0.0, 10.0])).tolist() == pytest.approx([312.0])


def test_no_requests_hold_nothing() -> None:
    assert peak_tokens(NONE, np.array([0.0, 1.0, 2.0])).tolist() == [0.0, 0.0]
