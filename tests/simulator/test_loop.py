"""The fleet: what becomes of device time and of jobs, by hand and in general."""

import json
from collections.abc import Sequence

import pytest
from simulator.worlds import Fixed, fixed, job, made_up

from rowen.simulator.loop import Outcome
from rowen.simulator.result import devices_saved, result, sla_figures
from rowen.simulator.running import Progress
from rowen.simulator.shape import Shape
from rowen.simulator.variants import Name
from rowen.simulator.world import job_view

ONE = Shape(nodes=1, seconds=300.0, start_seconds=0.0)
VIEW = job_view(job())


def attainment(jobs: Sequence[Progress], seconds: float) -> tuple[float | None, float | None, float | None]:
    found = sla_figures(jobs, seconds)
    return found["sla_attainment"], found["sla_attainment_placed"], found["sla_refused"]


def test_two_requests_and_one_job_by_hand() -> None:
    # Busy for 2 x 1 s, closed for 2 x 1.2 s. The job arrives at once, is placed at the first pass (60 s), and has the
    # device from then on: 240 s less 1.2 s of the second request.
    outcome = fixed(ONE, Fixed([10.0, 100.0]), job(tokens_per_second=100.0))
    time = outcome.ledger.time()
    assert time.online == pytest.approx(2.0)
    assert time.cooldown == pytest.approx(0.4)
    assert time.harvested == pytest.approx(238.8)
    assert time.idle == pytest.approx(60.0 - 1.2)
    (found,) = outcome.jobs
    assert found.placed == 60.0
    assert found.tokens == pytest.approx(23_880)
    assert found.throughput(300.0) == pytest.approx(238.8 / 240.0)
    assert devices_saved(outcome.jobs, 300.0) == pytest.approx(238.8 / 300.0)


def test_a_job_that_finishes_within_a_step_leaves_the_rest_of_it() -> None:
    outcome = fixed(ONE, Fixed(), job(tokens=9000, tokens_per_second=100.0))
    assert outcome.jobs[0].finished == pytest.approx(150.0)
    assert outcome.ledger.time().harvested == pytest.approx(90.0)
    assert outcome.jobs[0].tokens == pytest.approx(9000)


def test_a_job_computes_nothing_until_it_has_started() -> None:
    outcome = fixed(ONE.model_copy(update={"start_seconds": 90.0}), Fixed(), job(tokens_per_second=100.0))
    assert outcome.ledger.time().harvested == pytest.approx(300.0 - 60.0 - 90.0)


def test_two_jobs_on_one_device_share_it() -> None:
    outcome = fixed(ONE, Fixed(), job(0, tokens_per_second=100.0), job(1, tokens_per_second=10.0))
    assert [found.tokens for found in outcome.jobs] == pytest.approx([12_000, 1_200])
    assert outcome.ledger.time().harvested == pytest.approx(240.0)


def test_a_job_in_lockstep_runs_only_while_both_gates_are_open() -> None:
    shape = ONE.model_copy(update={"devices_per_node": 2, "services_per_node": 2})
    wide = job(devices=2, tokens_per_second=100.0)
    outcome = fixed(shape, Fixed([100.0, 200.0], [100.5, 200.0]), wide)
    # Closed together from 100 s to 101.7 s, and from 200 s to 201.2 s.
    assert outcome.jobs[0].tokens == pytest.approx((240.0 - 1.7 - 1.2) * 100.0)
    assert outcome.ledger.time().harvested == pytest.approx(2 * (240.0 - 2.9))


def test_devices_of_one_engine_are_busy_together() -> None:
    shape = ONE.model_copy(update={"devices_per_node": 4})
    outcome = fixed(shape, Fixed([100.0]), job(devices=4, tokens_per_second=100.0))
    assert outcome.ledger.time().online == pytest.approx(4.0)
    assert outcome.jobs[0].tokens == pytest.approx((240.0 - 1.2) * 100.0)


def test_missing_memory_slows_a_job_down() -> None:
    # Of the pool's 60 GiB the engine keeps a sixteenth of its 44 GiB at first, and the job has 9.25 GiB for itself.
    starved = job(
        tokens_per_second=100.0, memory_bytes=37 << 28, want_bytes=96 << 30, curve=((0, 0.0), (96 << 30, 1.0))
    )
    outcome = fixed(ONE, Fixed(), starved)
    assert 0.5 * 24_000 < outcome.jobs[0].tokens < 0.53 * 24_000


def test_what_tenants_have_for_themselves_is_taken_off_what_they_share() -> None:
    """60 GiB less at most 2.75 of the engine's, 3 and 6.25 leave 48, 24 for each of two jobs that want 48."""
    hungry = {"tokens_per_second": 100.0, "want_bytes": 48 << 30, "curve": ((0, 0.0), (48 << 30, 1.0))}
    small, large = job(0, memory_bytes=3 << 30, **hungry), job(1, memory_bytes=25 << 28, name="large", **hungry)
    outcome = fixed(ONE, Fixed(), small, large, name=Name.FIRST_FIT)
    assert [found.tokens for found in outcome.jobs] == pytest.approx([6_180, 6_180], rel=0.03)


def test_a_job_whose_memory_lets_it_make_nothing_harvests_nothing() -> None:
    starved = job(tokens_per_second=100.0, want_bytes=96 << 30, curve=((60 << 30, 0.0), (96 << 30, 1.0)))
    outcome = fixed(ONE, Fixed(), starved)
    assert outcome.jobs[0].tokens == 0.0
    assert (outcome.ledger.time().harvested, outcome.ledger.time().idle) == (0.0, 300.0)


@pytest.mark.parametrize(("arrival", "kept"), [(150.0, 0.0), (200.0, None)])
def test_a_job_younger_than_the_dwell_is_not_judged(arrival: float, kept: float | None) -> None:
    """Placed at 180 or 240 s, it makes nothing until the end at 300 s."""
    shape = ONE.model_copy(update={"start_seconds": 120.0})
    outcome = fixed(shape, Fixed(), job(sla=0.5, arrival=arrival))
    assert [found.placed for found in outcome.jobs] == [180.0 if arrival == 150.0 else 240.0]
    assert attainment(outcome.jobs, 300.0) == (kept, kept, 0)


def test_a_job_that_finished_within_the_dwell_is_not_judged() -> None:
    shape = ONE.model_copy(update={"start_seconds": 90.0})
    short, long = (job(sla=0.5, tokens=seconds * 100, tokens_per_second=100.0) for seconds in (20, 40))
    # Placed at 60 s, they begin at 150 s: 20 of 110 s and 40 of 130 s.
    assert attainment(fixed(shape, Fixed(), short).jobs, 300.0) == (None, None, 0)
    assert attainment(fixed(shape, Fixed(), long).jobs, 300.0) == (0.0, 0.0, 0)


def test_a_job_that_cannot_be_promised_its_sla_waits() -> None:
    busy = [float(second) for second in range(0, 300, 2)]
    outcome = fixed(ONE, Fixed(busy), job(sla=0.5), job(1))
    assert outcome.jobs[0].placed is None
    assert outcome.jobs[1].placed is not None
    assert attainment(outcome.jobs, 300.0) == (0.0, None, 1)


def test_a_job_that_is_refused_did_not_get_its_sla_unless_it_has_just_come() -> None:
    """Two have got what they asked for, one was placed and has not, three were never placed, the last one just now.

    Those that were placed: 2 of 3. With the two that were refused: 2 of 5. Best effort counts nowhere.
    """
    found = [
        *(Progress(job(sla=0.5, tokens_per_second=1.0), VIEW, tokens, placed=100.0) for tokens in (120.0, 100.0, 99.0)),
        *(Progress(job(sla=0.5, arrival=arrival), VIEW) for arrival in (0.0, 180.0, 180.1)),
        Progress(job(), VIEW),
    ]
    assert attainment(found, 300.0) == (0.4, pytest.approx(2 / 3, abs=1e-6), 2)


def broken(nodes: int, name: Name) -> Outcome:
    """The first node is idle for some minutes, then busy for 1.2 s of every 1.3 s."""
    shape = ONE.model_copy(update={"nodes": nodes, "seconds": 1200.0})
    source = Fixed([300.0 + 1.3 * index for index in range(690)])
    return fixed(shape, source, job(sla=0.45, tokens_per_second=100.0), name=name)


def test_a_broken_promise_is_withdrawn_where_it_can_be_kept_elsewhere_unless_nobody_looks() -> None:
    watched, unwatched = broken(2, Name.ROWEN), broken(2, Name.NO_MONITOR)
    assert sum(watched.jobs[0].evictions.values()) == 1
    assert unwatched.jobs[0].evictions == {}
    assert attainment(watched.jobs, 1200.0) == (1.0, 1.0, 0)
    assert attainment(unwatched.jobs, 1200.0) == (0.0, 0.0, 0)


def test_a_broken_promise_is_counted_where_nothing_is_better() -> None:
    outcome = broken(1, Name.ROWEN)
    assert outcome.jobs[0].evictions == {}
    assert attainment(outcome.jobs, 1200.0) == (0.0, 0.0, 0)


def test_no_requests_and_no_jobs_leave_everything_idle() -> None:
    outcome = fixed(ONE, Fixed())
    assert outcome.ledger.time().idle == outcome.ledger.time().total == 300.0
    assert result(outcome)["figures"]["utilisation_gain_points"] == 0.0


@pytest.mark.parametrize("name", list(Name))
@pytest.mark.parametrize("fields", [{}, {"devices_per_node": 4, "services_per_node": 2}], ids=["single", "four"])
def test_device_time_is_conserved(name: Name, fields: dict[str, object]) -> None:
    outcome = made_up(name, **fields)
    time, shape = outcome.ledger.time(), outcome.shape
    assert time.total == pytest.approx(shape.devices * 3600.0)
    assert time.harvested > 0.0
    assert min(time.online, time.cooldown, time.idle) > 0.0
    assert (outcome.ledger.harvested_by_device <= outcome.ledger.open_by_device + 1e-6).all()
    series = outcome.ledger.series()
    assert series.sum(axis=0) * shape.devices * shape.step_seconds == pytest.approx(
        [time.online, time.cooldown, time.harvested]
    )


def test_the_same_seed_gives_the_same_to_the_last_digit() -> None:
    fields = {"devices_per_node": 4, "services_per_node": 2}
    first, again, other = made_up(**fields), made_up(processes=1, **fields), made_up(seed=2, **fields)
    assert json.dumps(result(first)) == json.dumps(result(again))
    assert json.dumps(result(first)) != json.dumps(result(other))


@pytest.mark.parametrize(("count", "used"), [(2, [240.0] * 2 + [0.0] * 2), (4, [240.0] * 4), (5, [240.0] * 4)])
def test_first_fit_takes_empty_devices_first(count: int, used: list[float]) -> None:
    shape = ONE.model_copy(update={"nodes": 2, "devices_per_node": 2})
    outcome = fixed(shape, Fixed(), *(job(number) for number in range(count)), name=Name.FIRST_FIT)
    assert outcome.ledger.harvested_by_device.tolist() == used
    tokens = [found.tokens for found in outcome.jobs]
    assert tokens == pytest.approx([240_000.0] * count if count < 5 else [120_000.0, *[240_000.0] * 3, 120_000.0])


def test_first_fit_takes_the_first_devices_by_name() -> None:
    shape = ONE.model_copy(update={"nodes": 3})
    outcome = fixed(shape, Fixed([50.0 + 2 * index for index in range(100)]), job(), name=Name.FIRST_FIT)
    assert outcome.ledger.harvested_by_device.nonzero()[0].tolist() == [0]
    outcome = fixed(shape, Fixed([10.0 + 2 * index for index in range(100)]), job())
    assert outcome.ledger.harvested_by_device.nonzero()[0].tolist() != [0]


def test_fewer_passes_change_when_jobs_are_placed_and_not_what_is_there() -> None:
    outcome = made_up(pass_seconds=300.0)
    assert {found.placed % 300.0 for found in outcome.jobs if found.placed is not None} == {0.0}
    assert outcome.ledger.time().online == pytest.approx(made_up().ledger.time().online)
