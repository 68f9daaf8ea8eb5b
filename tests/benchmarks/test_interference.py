import json
import os
import random
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import interference
import pytest
from colocation.flags import Flags, Mode
from colocation.pairs import PAIRS, STARTS
from interference import ARMS, FULL, QUICK, Plan, Seen, blocks_of, unavailable
from picture import draw
from reporting.blocks import Block, median_interval
from reporting.repeat import Repeat

from rowen.demo.traffic.replay import Outcome

PLANS = pytest.mark.parametrize("plan", [QUICK, FULL], ids=["quick", "full"])


class Machine:
    """A colocation that only gets as far as the arms' set-up, on a machine without groups."""

    def __init__(self) -> None:
        self.flags = SimpleNamespace(mode=Mode.KERNEL)

    def arrange(self, tenant: str | None) -> None:
        assert tenant in (None, "managed", "free")

    def members(self, name: str) -> list[int]:
        if name == "engine":
            raise PermissionError(30, "Read-only file system", "/sys/fs/cgroup/cpu/rowen-benchmark-1-engine")
        return [os.getpid()]


def all_blocks(plan: Plan) -> tuple[list[Block], list[Block]]:
    source, pairs, others = random.Random(0), [], []
    for pair in plan.pairs:
        own, rest = blocks_of(plan, pair, [], source, len(pairs) + len(others))
        pairs += own
        others += rest
    return pairs, others


def test_ten_pairs_differ_and_each_server_serves_its_pairs_in_one_go():
    assert len(set(PAIRS)) == len(PAIRS) == 10
    groups = [(pair.size, pair.job) for pair in PAIRS]
    assert len(set(groups)) == 1 + sum(one != other for one, other in pairwise(groups))
    assert {value for pair in PAIRS for value in (pair.load, pair.size, pair.job)} == {
        *STARTS, "large", "small", "tuner", "batch",
    }  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_every_stretch_of_a_pair_has_requests_that_its_engine_takes(pair):
    for start in STARTS[pair.load]:
        requests = pair.requests(start, FULL.seconds)
        assert len(requests) >= 2, start
        assert all(len(request.prompt) + request.output_tokens <= 512 for request in requests)


@PLANS
def test_blocks_are_numbered_through_and_each_has_its_own_base(plan):
    pairs, others = all_blocks(plan)
    assert sorted(block.number for block in (*pairs, *others)) == list(range(len(pairs) + len(others)))
    assert all(sorted(block.arms) == ["alone", "rowen"] for block in pairs)
    assert all(set(block.arms) == set(ARMS) - {"rowen"} for block in others)
    firsts = Counter(block.arms[0] for block in pairs)
    assert firsts["alone"] == firsts["rowen"]


def test_the_full_run_has_intervals_for_rowen_in_every_pair_and_for_every_arm_over_all():
    own, others = blocks_of(FULL, PAIRS[0], [], random.Random(0))
    assert median_interval([0.0] * len(own)) is not None
    assert median_interval([0.0] * len(others) * len(PAIRS)) is not None


@pytest.mark.parametrize("cold", [True, False], ids=["cold", "warm"])
def test_a_server_that_stood_still_during_the_replay_before_is_told_to(monkeypatch, cold):
    # Unless it was warmed up, the server without the plugin has not served before.
    served = [] if cold else [False]

    def warmed_up(colocation, arm, *_):
        served.append(arm.plain)
        return SimpleNamespace(steady=True, replays=1)

    def measured(colocation, name, arm, *_, stood_still):
        assert stood_still is (served[-1] != arm.plain), name
        served.append(arm.plain)

    monkeypatch.setattr(interference, "warm_up", warmed_up)
    monkeypatch.setattr(interference, "measure", measured)
    repeats = interference.measure_pair(None, FULL, PAIRS[0], Seen(), random.Random(0), cold=cold)
    assert len(repeats) == len(served) - (2 if cold else 1)
    assert served.count(True) == FULL.others + cold


def test_tokens_of_different_tenants_are_added_up_as_seconds_of_each_alone():
    def repeat(tokens: float | None) -> Repeat:
        return Repeat("rowen", Block(0, 0.0, ()), (), 10.0, 5.0, 5.0, tokens, 0, (), (), 0, 0.0)

    seen = Seen(repeats={"one": [repeat(100)], "other": [repeat(30), repeat(None)]}, solo={"one": 50.0, "other": 10.0})
    assert [found.tokens for found in seen.of_all_pairs()] == [2.0, 3.0, None]


def test_arms_that_the_machine_does_not_allow_are_told_with_the_reason():
    reason = "[Errno 30] Read-only file system: '/sys/fs/cgroup/cpu/rowen-benchmark-1-engine'"
    machine = Machine()
    assert unavailable(machine) == {"pods": reason}
    assert machine.flags.mode is Mode.KERNEL


def test_engine_and_tenants_share_a_page(tmp_path):
    engine, benchmark = Flags(tmp_path / "flags"), Flags(tmp_path / "flags")
    assert (benchmark.busy, engine.mode) == (False, Mode.KERNEL)
    engine.busy, benchmark.mode = True, Mode.STEP
    assert (benchmark.busy, engine.mode) == (True, Mode.STEP)


def measured_plan(plan: Plan) -> Seen:
    """As if a tenant did everything and harmed nobody, without groups."""
    seen = Seen(missing={"pods": "no groups"}, solo={pair.name: 100.0 for pair in plan.pairs}, steady={"alone": True})
    outcome = Outcome(arrival=0.0, lateness=0.0, end=1.0, ttft=0.1, tpot=0.01, tokens=9, error=None)
    source = random.Random(0)
    for pair in plan.pairs:
        own, others = blocks_of(plan, pair, ["pods"], source, seen.blocks)
        seen.repeats[pair.name] = [
            Repeat(
                arm, block, (outcome,), 5.0, 4.0, 4.0, None if ARMS[arm].tenant is None else 400, 1, (), (1,), 0, 0.0
            )
            for block in (*own, *others)
            for arm in block.arms
        ]
    return seen


def test_a_run_tells_every_arm_over_all_pairs_and_for_each(monkeypatch, tmp_path):
    monkeypatch.setattr(interference, "measure_all", measured_plan)
    found = json.loads(json.dumps(interference.run(FULL)))
    assert found["figures"]["blocks"]["value"] == 60
    assert found["figures"]["ttft_p99_increase_high"]["value"] == 0.0
    assert found["baselines"]["step_level"]["blocks"]["value"] == 20
    assert found["baselines"]["step_level"]["harvest_efficiency"]["value"] == pytest.approx(1.0)
    assert "pods" not in found["baselines"]
    assert list(found["pairs"]) == [pair.name for pair in PAIRS]
    one = found["pairs"][PAIRS[0].name]
    assert one["rowen"]["blocks"]["value"] == 6
    assert one["rowen"]["offline_part_of_solo"]["value"] == pytest.approx(0.8)
    assert one["step_level"]["ttft_p99_increase_low"]["value"] is None
    draw(found, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
