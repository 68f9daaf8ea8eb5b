"""The benchmark's own reckoning; the node itself is real, and too long for a test."""

import numpy as np
import pytest
from node_model import Stretch, _line, as_arrays, figures, simulated

from rowen.demo.traffic.scaling import Request
from rowen.simulator.node.engine import Engine

ENGINE = Engine(
    prefill_seconds=0.1,
    prefill_tokens_per_second=100.0,
    decode_seconds=0.05,
    decode_seconds_per_request=0.05,
    decode_gap_seconds=0.1,
)
REQUESTS = as_arrays([Request(1.0, (8,) * 10, 10), Request(1.1, (8,) * 10, 10)])
STRETCH = Stretch("one", 10.0, open_share=0.8, tokens=800.0, speed=100.0, requests=REQUESTS)


def test_models_of_the_node_by_hand() -> None:
    # Prefills of 0.2 s: decoding from 1.2 and 1.4 on, 10 steps of 0.05 s, of 0.1 s for the second of two.
    found = simulated(STRETCH, ENGINE)
    assert found["simulator"] == pytest.approx(1.0 - (2.4 + 0.2 - 1.0) / 10.0)
    assert found["without_cooldown"] == pytest.approx(1.0 - (2.4 - 1.0) / 10.0)
    # Each as if alone: 0.2 + 10 · 0.05 s, until 1.7 and 1.8.
    assert found["one_at_a_time"] == pytest.approx(1.0 - (1.8 + 0.2 - 1.0) / 10.0)
    assert found["always_alone"] == pytest.approx(1.0 - (1.8 - 1.0) / 10.0)


def test_errors_are_of_what_was_measured() -> None:
    shares = [{"simulator": 0.84}, {"simulator": 0.6}]
    other = Stretch("two", 10.0, open_share=0.8, tokens=1200.0, speed=200.0, requests=REQUESTS)
    found = {name: value for name, (value, _) in figures([STRETCH, other], shares, "simulator").items()}
    assert found["harvested_share_error"] == pytest.approx((0.84 + 0.6) / (0.8 + 0.6) - 1.0)
    assert found["harvested_share_error_max"] == pytest.approx(0.05)
    assert found["open_share_error_max"] == pytest.approx(0.25)
    assert found["open_share_error_mean"] == pytest.approx((0.05 - 0.25) / 2)


def test_a_line_goes_through_the_medians() -> None:
    slope, begin = _line([(0.0, 1.0), (0.0, 1.0), (0.0, 9.0), (2.0, 2.0), (4.0, 3.0)])
    assert (slope, begin) == (pytest.approx(0.5), pytest.approx(1.0))


def test_a_line_never_begins_below_nought() -> None:
    assert _line([(1.0, 0.0), (2.0, 1.0)])[1] > 0.0


def test_requests_keep_their_order() -> None:
    assert np.array_equal(REQUESTS.arrivals, [1.0, 1.1])
    assert np.array_equal(REQUESTS.inputs, [10.0, 10.0])
    assert np.array_equal(REQUESTS.outputs, [10.0, 10.0])
