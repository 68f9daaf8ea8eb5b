"""The loop against a real API server that is slow or refuses, pass by pass, with a clock of its own."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from kr8s.asyncio import Api
from scheduler.stage import Clock, Stage, condition
from scheduler.steps import see
from scheduler.tap import Tap

from rowen.scheduler.backoff import Backoff
from rowen.scheduler.history import History
from rowen.scheduler.loop import Loop, pause_seconds
from rowen.scheduler.mirror import FAILURES
from rowen.scheduler.policy import Policy

WRITE, STORE = "PATCH offlinejobs", "PATCH configmaps"
_REFUSALS = 200


@dataclass
class Monotonic:
    """Stands in for the module `time`: its monotonic clock moves only when it is told to."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return time.thread_time()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Monotonic:
    made = Monotonic()
    monkeypatch.setattr("rowen.scheduler.loop.time", made)
    return made


@pytest.fixture
async def stage(kube: Api, namespace: str) -> AsyncIterator[Stage]:
    made = Stage(kube, namespace, Clock())
    await made.service()
    yield made
    await made.clear()


async def deny_assignments(stage: Stage) -> None:
    """The API server refuses every status with an assignment, for as long as the stage stands."""
    group, name = "admissionregistration.k8s.io/v1", f"no-assignments-{stage.namespace}"
    rule = {
        "apiGroups": ["rowen.dev"], "apiVersions": ["*"], "operations": ["UPDATE"],
        "resources": ["offlinejobs/status"],
    }  # fmt: skip
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "!has(object.status) || !has(object.status.assignment)"}],
    }
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}},
    }
    for kind, plural, spec in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies", policy),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", binding),
    ):
        await stage.make({"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec}, plural)


async def until_refused(stage: Stage, loop: Loop, tap: Tap) -> None:
    """Waits until the API server enforces what it was told."""
    for number in range(_REFUSALS):
        await stage.job(f"probe-{number}")
        await see(loop)
        await loop.step()
        found = await stage.get_job(f"probe-{number}")
        await stage.delete("rowen.dev/v1alpha1", f"offlinejobs/probe-{number}", stage.namespace)
        if "assignment" not in found.get("status", {}):
            tap.calls.clear()
            return
    pytest.fail("assignments were never refused")


async def test_a_refused_write_is_tried_again_ever_more_rarely(stage: Stage, clock: Monotonic) -> None:
    """The assignment that is refused has a new id each time."""
    tap = Tap(stage.api)
    loop = Loop(tap.api, stage.namespace, Policy(), stage.clock)
    await stage.node("a", slots=1)
    await deny_assignments(stage)
    await until_refused(stage, loop, tap)
    await stage.job("j")
    await see(loop)
    tried = []
    for _ in range(100):
        await loop.step()
        tried += [clock.now] * tap.calls.count(WRITE)
        tap.calls.clear()
        clock.now += 10.0
    begin = tried[0]
    assert [at - begin for at in tried] == [0, 10, 20, 30, 50, 90, 160, 290, 550, 850]


async def test_something_else_is_written_while_a_refused_write_waits(stage: Stage, clock: Monotonic) -> None:
    tap = Tap(stage.api)
    loop = Loop(tap.api, stage.namespace, Policy(), stage.clock)
    await stage.node("a", slots=1)
    await deny_assignments(stage)
    await until_refused(stage, loop, tap)
    await stage.job("j")
    await see(loop)
    for _ in range(5):
        await loop.step()
        clock.now += 20.0
    await loop.step()
    await stage.job("j", suspend=True)
    await see(loop)
    clock.now += 10.0
    await loop.step()
    assert condition((await stage.get_job("j"))["status"], "Placed")["reason"] == "Suspended"
    await stage.job("j", suspend=False)
    await see(loop)
    tap.calls.clear()
    await loop.step()
    assert WRITE not in tap.calls, "what was refused before is still held back"


async def test_without_an_answer_every_write_of_the_job_waits(stage: Stage, clock: Monotonic) -> None:
    tap = Tap(stage.api)
    loop = Loop(tap.api, stage.namespace, Policy(), stage.clock)
    await stage.job("j")
    await see(loop)
    tap.errors[WRITE] = httpx.ConnectError("no route")
    await loop.step()
    tap.errors.clear()
    await stage.job("j", suspend=True)
    await see(loop)
    tap.calls.clear()
    clock.now += 1.9
    await loop.step()
    assert WRITE not in tap.calls
    clock.now += 0.1
    await loop.step()
    assert condition((await stage.get_job("j"))["status"], "Placed")["reason"] == "Suspended"


async def test_profiles_that_cannot_be_stored_are_not_tried_every_pass(stage: Stage, clock: Monotonic) -> None:
    tap = Tap(stage.api)
    loop = Loop(tap.api, stage.namespace, Policy(), stage.clock)
    await stage.job("j")
    await see(loop)
    uid = (await stage.get_job("j"))["metadata"]["uid"]
    loop.history = History(backoffs={(uid, "n"): Backoff(1, stage.clock() + 999.0, "SLAViolated")})
    tap.errors[STORE] = httpx.ConnectError("no route")
    clock.now = 1000.0
    tried = []
    for _ in range(61):
        with contextlib.suppress(*FAILURES):
            await loop.step()
        tried += [clock.now] * tap.calls.count(STORE)
        tap.calls.clear()
        clock.now += 1.0
    assert tried == [1000.0, 1030.0, 1060.0]


async def test_a_pass_with_slow_writes_is_alive(
    stage: Stage, clock: Monotonic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write takes 40 s, the pass far longer than a loop may stand still."""
    monkeypatch.setattr("rowen.scheduler.loop._WRITERS", 1)
    slow = Slow(stage.api, clock, 40.0)
    loop = Loop(slow.api, stage.namespace, Policy(), stage.clock)
    slow.watched = loop
    for number in range(4):
        await stage.job(f"j{number}")
    await see(loop)
    await loop.step()
    assert len(slow.alive) >= 4
    assert all(slow.alive)


class Slow(Tap):
    """Every write takes long; notes whether the loop counts as alive by then."""

    def __init__(self, api: Api, clock: Monotonic, seconds: float) -> None:
        super().__init__(api)
        self._clock, self._seconds = clock, seconds
        self.watched: Loop | None = None
        self.alive: list[bool] = []

    @contextlib.asynccontextmanager
    async def call_api(self, method: str = "GET", **arguments: Any) -> AsyncIterator[Any]:
        async with super().call_api(method, **arguments) as response:
            if method == "PATCH":
                self._clock.now += self._seconds
                self.alive += [self.watched.alive()] if self.watched else []
            yield response


async def test_slow_writes_make_no_long_pause(stage: Stage, clock: Monotonic) -> None:
    slow = Slow(stage.api, clock, 100.0)
    loop = Loop(slow.api, stage.namespace, Policy(), stage.clock)
    task = asyncio.create_task(loop.run())
    try:
        for name in ("a", "b"):
            await stage.job(name)
            await stage.await_job(name, lambda status: bool(status.get("conditions")))
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize(("still", "alive"), [(59.9, True), (60.0, False)])
async def test_a_loop_that_stands_still_is_not_alive(kube: Api, clock: Monotonic, still: float, alive: bool) -> None:
    loop = Loop(kube, "none", Policy())
    clock.now += still
    assert loop.alive() == alive


@pytest.mark.parametrize(
    ("worked", "failures", "pause"),
    [(0.0, 0, 0.2), (0.05, 0, 0.2), (0.1, 0, 0.4), (5.0, 0, 20.0), (9.0, 0, 20.0), (0.0, 1, 2.0), (0.0, 3, 8.0),
     (0.0, 99, 20.0), (1.0, 1, 4.0)],
)  # fmt: skip
def test_pauses_follow_the_work_and_the_failures(worked: float, failures: int, pause: float) -> None:
    assert pause_seconds(worked, failures) == pytest.approx(pause)
