"""The machine's jitter as it is kept."""

from reporting.jitter import Jitter


def test_samples_are_kept_as_values_and_how_often_each_came():
    jitter = Jitter()
    jitter.samples = [0.1234, 5.0, 0.118, 0.07]
    assert jitter.raw() == [(0.07, 1), (0.12, 2), (5.0, 1)]
