from dataclasses import replace

from rowen.demo.samples import CONTEXT, VOCABULARY
from rowen.demo.traffic.excerpt import TraceRow, load
from rowen.demo.traffic.replay import MAX_REQUESTS
from rowen.demo.traffic.scaling import DEMO, Scaling, scale

ALL = Scaling(keep=1.0, prompt_factor=0.01, prompt_range=(4, 50), output_max=20, vocabulary=100)


def test_the_same_seed_gives_the_same_requests():
    assert scale(load(), DEMO) == scale(load(), DEMO)
    assert scale(load(), DEMO) != scale(load(), replace(DEMO, seed=1))


def test_arrivals_are_the_traces_own():
    arrivals = {row.arrival for row in load()}
    assert all(request.arrival in arrivals for request in scale(load(), DEMO))


def test_tokens_are_scaled_and_bounded():
    rows = [TraceRow(0.0, 100, 5), TraceRow(1.0, 2000, 19), TraceRow(2.0, 9000, 500)]
    requests = scale(rows, ALL)
    assert [len(request.prompt) for request in requests] == [4, 20, 50]
    assert [request.output_tokens for request in requests] == [5, 19, 20]
    assert all(0 < token < 100 for request in requests for token in request.prompt)


def test_a_stretch_holds_the_same_requests_as_the_whole():
    whole = {(request.arrival, request.prompt) for request in scale(load(), DEMO)}
    stretch = scale(load(), DEMO, start=60, seconds=20)
    assert stretch
    assert all(request.arrival < 20 for request in stretch)
    assert {(round(request.arrival + 60, 3), request.prompt) for request in stretch} <= {
        (round(arrival, 3), prompt) for arrival, prompt in whole
    }


def test_thinning_keeps_about_its_part():
    kept = len(scale(load(), DEMO)) / len(load())
    assert abs(kept - DEMO.keep) < 0.05


def test_the_demo_fits_its_model_and_the_replayers_bounds():
    requests = scale(load(), DEMO)
    assert len(requests) <= MAX_REQUESTS
    assert max(len(request.prompt) + request.output_tokens for request in requests) < CONTEXT
    assert max(token for request in requests for token in request.prompt) < VOCABULARY
