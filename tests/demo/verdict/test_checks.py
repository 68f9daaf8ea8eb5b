"""Each check passes on good evidence, and fails on each way in which it can be bad or missing."""

from dataclasses import replace

import pytest
from outcomes import outcome

from rowen.demo.verdict import checks
from rowen.demo.verdict.checks import JobResult, PodEvidence, Readiness
from rowen.demo.verdict.exposure import Exposure
from rowen.demo.verdict.finding import Cause
from rowen.demo.verdict.lateness import Lateness
from rowen.demo.verdict.objective import Target
from rowen.demo.verdict.riding import Ridden
from rowen.demo.verdict.sample import Sample

READY = Readiness(observations=180, seconds=200.0, lapses=())
DONE = JobResult("support-lora", True, True, "Succeeded", "loss fell", 162, 162)
FOUND = PodEvidence(
    adapter_tokens=48,
    adapter_differs=True,
    base_loss=6.9,
    adapter_loss=4.2,
    input_rows=120,
    output_rows=120,
)
ON_TIME, OVERLOADED = Lateness(0.4, 100.0, 9.0), Lateness(0.4, 100.1, 9.0)


def test_service_ready():
    assert checks.service_ready(READY).passed


@pytest.mark.parametrize("readiness", [replace(READY, lapses=("pod chat restarted",)), replace(READY, observations=0)])
def test_service_not_ready(readiness):
    assert not checks.service_ready(readiness).passed


def test_a_lapse_is_named():
    assert "restarted" in checks.service_ready(replace(READY, lapses=("pod chat restarted",))).evidence


def test_requests_answered():
    assert checks.requests_answered([outcome(), outcome()], 2).passed


@pytest.mark.parametrize(
    ("outcomes", "expected"), [([], 0), ([outcome()], 2), ([outcome(), outcome(error="HTTP 503")], 2)]
)
def test_requests_unanswered(outcomes, expected):
    assert not checks.requests_answered(outcomes, expected).passed


def samples(*values):
    alone = Exposure(
        recorded=True, tenant=False, preempted=False, met_stop=False, way=0.0, stop=0.0, still=0.0, others=0, period=1
    )
    return [Sample(value, alone) for value in values]


@pytest.mark.parametrize(("percentile", "kept"), [(50, True), (99, False)])
def test_the_objective_is_held_at_its_own_percentile(percentile, kept):
    check = checks.objective_kept("latency", samples(*[0.1] * 19, 0.9), Target(percentile, 0.5), "", ON_TIME)
    assert check.passed is kept
    assert f"p{percentile} of 20 requests is " in check.evidence
    assert "the objective 500 ms" in check.evidence


@pytest.mark.parametrize(("value", "kept"), [(0.5, True), (0.5001, False)])
def test_an_objective_that_is_met_exactly_is_met(value, kept):
    assert checks.objective_kept("latency", samples(value), Target(99, 0.5), "", ON_TIME).passed is kept


@pytest.mark.parametrize(
    ("given", "doubt", "cause", "verdict"),
    [
        (samples(*[0.9] * 200), "", Cause.SERVICE, "The service alone; this machine is too slow for the objective"),
        (samples(*[0.9] * 200), "nothing recorded", Cause.UNKNOWN, "Whose fault is not known: nothing recorded"),
        ([replace(sample, late=0.8) for sample in samples(0.9)], "", Cause.REPLAYER, "The replayer; this machine is"),
        ([replace(sample, stop=0.8) for sample in samples(0.9)], "", Cause.TENANT, "Offline work: without the time"),
    ],
)
def test_a_missed_objective_fails_whoever_is_to_blame(given, doubt, cause, verdict):
    check = checks.objective_kept("latency", given, Target(99, 0.5), doubt, ON_TIME)
    assert (check.passed, check.cause) == (False, cause)
    assert verdict in check.evidence


@pytest.mark.parametrize(
    ("given", "doubt", "cause"),
    [
        (samples(*[0.9] * 200), "nothing recorded", Cause.BUSY),
        # What is known stays so, and what was met was met.
        (samples(*[0.9] * 200), "", Cause.SERVICE),
        ([replace(sample, stop=0.8) for sample in samples(0.9)], "", Cause.TENANT),
        (samples(0.4), "nothing recorded", None),
    ],
)
def test_on_a_machine_that_is_too_busy_what_is_not_known_is_put_down_to_it(given, doubt, cause):
    check = checks.objective_kept("latency", given, Target(99, 0.5), doubt, OVERLOADED)
    assert (check.passed, check.cause, check.busy) == (cause is None, cause, cause is Cause.BUSY)
    figures = "the replayer sent its requests 0.4 ms (p50) and 100.1 ms (p99) late"
    assert (figures in check.evidence) is check.busy
    assert check.evidence.endswith("; nothing recorded") is check.busy


def test_an_objective_is_not_kept_without_requests():
    check = checks.objective_kept("latency", [], Target(99, 0.5), "", ON_TIME)
    assert (check.passed, check.cause) == (False, None)


def test_job_finished():
    assert checks.job_finished(DONE).passed


@pytest.mark.parametrize("job", [replace(DONE, finished=False, succeeded=False), replace(DONE, succeeded=False)])
def test_job_not_finished(job):
    assert not checks.job_finished(job).passed


def test_adapter_loads():
    assert checks.adapter_loads(FOUND).passed


@pytest.mark.parametrize("change", [{"adapter_error": "no such file"}, {"adapter_tokens": 0}])
def test_adapter_does_not_load(change):
    assert not checks.adapter_loads(FOUND.model_copy(update=change)).passed


def test_loss_is_lower():
    assert checks.loss_is_lower(FOUND).passed


@pytest.mark.parametrize("change", [{"adapter_loss": 6.9}, {"adapter_loss": 7.0}, {"base_loss": None}])
def test_loss_is_not_lower(change):
    assert not checks.loss_is_lower(FOUND.model_copy(update=change)).passed


def test_rows_exactly_once():
    assert checks.rows_exactly_once(FOUND).passed


@pytest.mark.parametrize(
    "change",
    [
        {"missing": 1, "output_rows": 119},
        {"doubled": 1, "output_rows": 121},
        {"unknown": 1, "output_rows": 121},
        {"failed_rows": 1},
        {"output_rows": 0},
        {"input_rows": 0, "output_rows": 0},
    ],
)
def test_rows_not_exactly_once(change):
    assert not checks.rows_exactly_once(FOUND.model_copy(update=change)).passed


def test_preempted():
    assert checks.preempted(12, (0.3, 0.9)).passed
    assert not checks.preempted(0, (0.0, 0.0)).passed


def test_at_most_one_preemption_each():
    kept = checks.at_most_one_each([0, 1, 1, 0])
    assert (kept.passed, kept.evidence) == (True, "4 requests: 2 preempted offline work once, the most of any is 1")


@pytest.mark.parametrize("counts", [[], [0, 2, 1]])
def test_more_than_one_preemption(counts):
    assert not checks.at_most_one_each(counts).passed


RODE = {"support-lora": {"CoServe": 31}, "nightly-summaries": {"CoServe": 9}}
RIDDEN = Ridden(forward=100, solo=200, backward=290, rows=50, steps=40, riding_steps=20)


def test_jobs_rode():
    check = checks.rode_in_engine(RODE, RIDDEN)
    assert check.passed
    assert check.evidence == (
        "support-lora: CoServe at 31 looks; nightly-summaries: CoServe at 9 looks; while jobs were watched the engine "
        "worked through 300 tokens of fine-tuning forward, 100 of them in its steps, 290 backward, and 50 tokens of "
        "batch rows"
    )


@pytest.mark.parametrize("change", [{"forward": 0}, {"solo": 0}, {"steps": 0, "riding_steps": 0}])
def test_jobs_rode_whatever_the_engine_had_to_do_meanwhile(change):
    assert checks.rode_in_engine(RODE, replace(RIDDEN, **change)).passed


@pytest.mark.parametrize(
    ("modes", "ridden"),
    [
        ({}, RIDDEN),
        (RODE | {"support-lora": {}}, RIDDEN),
        (RODE | {"support-lora": {"CoServe": 30, "Preempt": 1}}, RIDDEN),
        (RODE | {"support-lora": {"Preempt": 31}}, RIDDEN),
        (RODE, Ridden()),
        (RODE, replace(RIDDEN, forward=0, solo=0)),
        (RODE, replace(RIDDEN, backward=0)),
        (RODE, replace(RIDDEN, rows=0)),
    ],
)
def test_jobs_did_not_all_ride(modes, ridden):
    assert not checks.rode_in_engine(modes, ridden).passed


def test_a_job_without_a_place_is_named():
    evidence = checks.rode_in_engine(RODE | {"support-lora": {}}, RIDDEN).evidence
    assert evidence.startswith("support-lora: never seen with a place; ")
