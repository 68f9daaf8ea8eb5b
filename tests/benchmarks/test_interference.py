import os
from itertools import chain

import interference
import pytest
from blocks import LEAST_BLOCKS, median_interval
from interference import ARMS, FULL, QUICK, blocks_of, unavailable

from rowen.demo.traffic.excerpt import EXCERPT_SECONDS, load
from rowen.demo.traffic.scaling import DEMO, scale

PLANS = pytest.mark.parametrize("plan", [QUICK, FULL], ids=["quick", "full"])


class Machine:
    """A colocation that only gets as far as the arms' set-up, on a machine without groups."""

    def arrange(self, tenant: str | None) -> None:
        assert tenant in (None, "managed", "free")

    def members(self, name: str) -> list[int]:
        if name == "engine":
            raise PermissionError(30, "Read-only file system", "/sys/fs/cgroup/cpu/rowen-benchmark-1-engine")
        return [os.getpid()]


@PLANS
def test_rowen_and_its_noise_have_blocks_enough_for_an_interval(plan):
    pairs, _ = blocks_of(plan, [])
    assert len(pairs) >= 2 * LEAST_BLOCKS
    assert all(sorted(block.arms) == ["alone", "rowen"] for block in pairs)
    assert all(one.start == other.start for one, other in zip(pairs[::2], pairs[1::2], strict=True))
    firsts = [block.arms[0] for block in pairs]
    assert firsts.count("alone") == firsts.count("rowen")


def test_the_full_run_has_intervals_for_every_arm():
    _, others = blocks_of(FULL, [])
    assert median_interval([0.0] * len(others)) is not None


def test_a_server_that_stood_still_during_the_replay_before_is_told_to(monkeypatch):
    served = []
    monkeypatch.setattr(interference, "warm_up", lambda colocation, arm, *_: served.append(arm.plain))

    def measured(colocation, name, arm, *_, stood_still):
        assert stood_still is (served[-1] != arm.plain), name
        served.append(arm.plain)

    monkeypatch.setattr(interference, "measure", measured)
    pairs, others = blocks_of(FULL, [])
    repeats, _ = interference.measure_all(None, FULL, [])
    assert len(repeats) == len(served) - 2 == sum(len(block.arms) for block in (*pairs, *others))
    assert served.count(True) == len(others) + 1


@PLANS
def test_all_other_arms_take_turns_with_the_server_alone(plan):
    pairs, others = blocks_of(plan, ["pods_idle"])
    assert [block.number for block in chain(pairs, others)] == list(range(len(pairs) + len(others)))
    assert all(set(block.arms) == set(ARMS) - {"rowen", "pods_idle"} for block in others)


@pytest.mark.parametrize(("plan", "requests"), [(QUICK, 22), (FULL, 312)], ids=["quick", "full"])
def test_stretches_hold_requests_of_the_excerpt_once(plan, requests):
    ends = [start + plan.seconds for start in plan.starts]
    assert ends[-1] <= EXCERPT_SECONDS
    assert all(end <= start for end, start in zip(ends, plan.starts[1:], strict=False))
    assert sum(len(scale(load(), DEMO, start=start, seconds=plan.seconds)) for start in plan.starts) == requests


def test_arms_that_the_machine_does_not_allow_are_told_with_the_reason():
    reason = "[Errno 30] Read-only file system: '/sys/fs/cgroup/cpu/rowen-benchmark-1-engine'"
    assert unavailable(Machine()) == dict.fromkeys(["pods", "pods_weight_1", "pods_idle"], reason)
