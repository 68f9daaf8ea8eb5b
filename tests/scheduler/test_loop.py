"""The loop against a real API server that is slow or refuses, pass by pass, with a clock of its own."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from scheduler.stage import Clock, Stage, condition
from scheduler.steps import see
from scheduler.tap import Tap, until

from rowen.kube.client import Client, Raw
from rowen.kube.election import LostLeaseError
from rowen.kube.errors import KubeError, RefusedError, UnreachableError
from rowen.scheduler.decision import Action
from rowen.scheduler.history import History
from rowen.scheduler.loop import Loop
from rowen.scheduler.monitor.backoff import Backoff
from rowen.scheduler.policy import Policy
from rowen.scheduler.world.refusal import Refusal

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
    for module in ("loop", "world.keeping"):
        monkeypatch.setattr(f"rowen.scheduler.{module}.time", made)
    return made


@pytest.fixture
async def stage(kube: Client, namespace: str) -> AsyncIterator[Stage]:
    made = Stage(kube, namespace, Clock())
    await made.service()
    yield made
    await made.clear()


async def deny_assignments(stage: Stage) -> None:
    """The API server refuses every status with an assignment, for as long as the stage stands, but for `taken`."""
    group, name = "admissionregistration.k8s.io/v1", f"no-assignments-{stage.namespace}"
    rule = {
        "apiGroups": ["rowen.dev"], "apiVersions": ["*"], "operations": ["UPDATE"],
        "resources": ["offlinejobs/status"],
    }  # fmt: skip
    none = "!has(object.status) || !has(object.status.assignment)"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": f"object.metadata.name == 'taken' || {none}"}],
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
    tap = Tap(stage.client)
    loop = Loop(tap.client, stage.namespace, stage.namespace, Policy(), stage.clock)
    node = await stage.node("a", slots=1)
    await deny_assignments(stage)
    await until_refused(stage, loop, tap)
    await stage.job("j")
    uid, tried = (await stage.get_job("j"))["metadata"]["uid"], []
    for _ in range(60):
        await stage.beat(node)
        await stage.report(node)
        await see(loop)
        tap.calls.clear()
        found = (await loop.step()).outcome(uid)
        assert found is not None
        tried += [clock.now] if WRITE in tap.calls and found.action is Action.PLACE else []
        clock.now += 20.0
        stage.clock.offset += 20.0
    assert [at - tried[0] for at in tried] == [0, 40, 100, 220, 460, 760, 1060]


async def test_others_have_the_place_of_a_job_whose_assignment_is_refused(stage: Stage, clock: Monotonic) -> None:
    """Both are of one priority, so their places are chosen together, and the older one goes first."""
    tap = Tap(stage.client)
    loop = Loop(tap.client, stage.namespace, stage.namespace, Policy(), stage.clock)
    await stage.node("a", slots=1)
    await deny_assignments(stage)
    await until_refused(stage, loop, tap)
    await stage.job("refused")
    await stage.job("taken", memory="65Mi")
    for _ in range(2):
        await see(loop)
        await loop.step()
        clock.now += 3.0
    assert "assignment" in (await stage.get_job("taken"))["status"]
    told = condition((await stage.get_job("refused"))["status"], "Placed")
    assert told["reason"] == "Waiting"
    assert re.search(
        r"after AssignmentRefused: .*denied request: failed expression.* \(attempt 1 on all nodes\)", told["message"]
    )


async def test_something_else_is_written_while_a_refused_write_waits(stage: Stage, clock: Monotonic) -> None:
    tap = Tap(stage.client)
    loop = Loop(tap.client, stage.namespace, stage.namespace, Policy(), stage.clock)
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
    clock.now += 10.0
    await loop.step()
    assert condition((await stage.get_job("j"))["status"], "Placed")["reason"] == "Waiting"


async def test_without_an_answer_every_write_of_the_job_waits(stage: Stage, clock: Monotonic) -> None:
    tap = Tap(stage.client)
    loop = Loop(tap.client, stage.namespace, stage.namespace, Policy(), stage.clock)
    await stage.job("j")
    await see(loop)
    tap.errors[WRITE] = UnreachableError("no route")
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
    tap = Tap(stage.client)
    loop = Loop(tap.client, stage.namespace, stage.namespace, Policy(), stage.clock)
    await stage.job("j")
    await see(loop)
    uid = (await stage.get_job("j"))["metadata"]["uid"]
    loop.history = History(backoffs={(uid, "n"): Backoff(1, stage.clock() + 999.0, "SLAViolated")})
    tap.errors[STORE] = UnreachableError("no route")
    clock.now = 1000.0
    tried = []
    for _ in range(61):
        with contextlib.suppress(KubeError):
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
    slow = Slow(stage.client, clock, 40.0)
    loop = Loop(slow.client, stage.namespace, stage.namespace, Policy(), stage.clock)
    slow.watched, loop._running = loop, True
    for number in range(4):
        await stage.job(f"j{number}")
    await see(loop)
    await loop.step()
    assert len(slow.alive) >= 4
    assert all(slow.alive)


class Slow(Tap):
    """Every write takes long; notes whether the loop counts as alive by then."""

    def __init__(self, client: Client, clock: Monotonic, seconds: float) -> None:
        super().__init__(client)
        self._clock, self._seconds = clock, seconds
        self.watched: Loop | None = None
        self.alive: list[bool] = []

    async def call(self, method: str, path: str, **arguments: Any) -> Raw:
        answer = await super().call(method, path, **arguments)
        if method == "PATCH":
            self._clock.now += self._seconds
            self.alive += [self.watched.alive()] if self.watched else []
        return answer


async def test_slow_writes_make_no_long_pause(stage: Stage, clock: Monotonic) -> None:
    slow = Slow(stage.client, clock, 100.0)
    loop = Loop(slow.client, stage.namespace, stage.namespace, Policy(), stage.clock)
    task = asyncio.create_task(loop.run())
    try:
        for name in ("a", "b"):
            await stage.job(name)
            await stage.await_job(name, lambda status: bool(status.get("conditions")))
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize(("still", "alive"), [(59.9, True), (60.0, False)])
async def test_a_loop_that_stands_still_is_not_alive(kube: Client, clock: Monotonic, still: float, alive: bool) -> None:
    loop = Loop(kube, "none", "none", Policy())
    loop._running = True
    clock.now += still
    assert loop.alive() == alive


async def test_a_loop_that_stands_by_is_alive(kube: Client, clock: Monotonic) -> None:
    loop = Loop(kube, "none", "none", Policy())
    clock.now += 3600.0
    assert loop.alive()


async def test_a_status_that_has_changed_since_is_decided_on_again(stage: Stage) -> None:
    """The user suspends the job while it is being placed: the assignment that was decided on is never written."""
    tap = Tap(stage.client)
    loop = Loop(tap.client, stage.namespace, stage.namespace, Policy(), stage.clock)
    await stage.node("a")
    await stage.job("j")
    await see(loop)
    await stage.job("j", suspend=True)
    await loop.step()
    assert "assignment" not in (await stage.get_job("j")).get("status", {})
    assert tap.calls.count(WRITE) >= 1, "it was tried"
    tap.calls.clear()
    await loop.step()
    assert condition((await stage.get_job("j"))["status"], "Placed")["reason"] == "Suspended"
    assert "GET offlinejobs" not in tap.calls


async def test_no_slot_is_promised_twice_where_a_withdrawal_was_not_taken(stage: Stage) -> None:
    """The user suspends a job and goes back on it, unseen: its slot is not free for the job that waits."""
    loop = Loop(stage.client, stage.namespace, stage.namespace, Policy(), stage.clock)
    await stage.node("a", slots=1)
    await stage.job("j")
    await see(loop)
    await loop.step()
    first = (await stage.get_job("j"))["status"]["assignment"]["id"]
    await stage.job("k")
    await stage.job("j", suspend=True)
    await see(loop)
    await stage.job("j", suspend=False)
    decision = await loop.step()
    assert {(outcome.job.name, outcome.action) for outcome in decision.outcomes} >= {
        ("j", Action.REVOKE), ("k", Action.PLACE)
    }  # fmt: skip
    assert (await stage.get_job("j"))["status"]["assignment"]["id"] == first
    assert "assignment" not in (await stage.get_job("k")).get("status", {})
    await loop.step()
    assert (await stage.get_job("j"))["status"]["assignment"]["id"] == first
    assert "assignment" not in (await stage.get_job("k"))["status"]


async def test_a_withdrawal_that_was_not_taken_begins_no_back_off(stage: Stage) -> None:
    loop = Loop(stage.client, stage.namespace, stage.namespace, Policy(), stage.clock)
    await stage.node("a", slots=1)
    await stage.job("j")
    await see(loop)
    await loop.step()
    await stage.not_started("j")
    await see(loop)
    await stage.job("j", suspend=True)
    decision = await loop.step()
    assert [outcome.action for outcome in decision.outcomes if outcome.job.name == "j"] == [Action.REVOKE]
    uid = (await stage.get_job("j"))["metadata"]["uid"]
    assert [key for key in decision.backoffs if key[0] == uid]
    assert [key for key in loop.history.backoffs if key[0] == uid] == []
    assert uid not in loop._withdrawn


async def test_one_that_leads_again_decides_on_what_is_there_then(stage: Stage) -> None:
    """Another scheduler has been at work since."""
    tap = Tap(stage.client)
    loop = Loop(tap.client, stage.namespace, stage.namespace, Policy(), stage.clock)
    async with running(loop):
        await stage.job("j")
        await stage.await_job("j", lambda status: bool(status.get("conditions")))
        assert loop.metrics.registry.get_sample_value("rowen_leading") == 1.0
    assert loop.metrics.registry.get_sample_value("rowen_leading") == 0.0
    assert loop.snapshot() is None, "what is not kept is not known"
    loop._refused["gone"] = Refusal()
    loop._withdrawn["gone"] = "a"
    await stage.job("k")
    held = tap.hold("GET nodeharvests")
    tap.calls.clear()
    async with asyncio.timeout(60), running(loop):
        await held.arrived.wait()
        assert (loop._refused, loop._withdrawn) == ({}, {})
        await until(lambda: "WATCH offlinejobs" in tap.calls)
        assert WRITE not in tap.calls
        held.release()
        await stage.await_job("k", lambda status: bool(status.get("conditions")))


async def test_nothing_is_written_once_the_lease_has_run_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise LostLeaseError("too late")

    monkeypatch.setattr("rowen.scheduler.loop.ensure_held", lost)
    tap = Tap(stage.client)
    loop = Loop(tap.client, stage.namespace, stage.namespace, Policy(), stage.clock)
    await stage.job("j")
    await see(loop)
    await loop.step()
    assert WRITE not in tap.calls


@contextlib.asynccontextmanager
async def running(loop: Loop) -> AsyncIterator[None]:
    """It works by itself, and ends."""
    task = asyncio.create_task(loop.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_status_that_changes_all_the_time_is_tried_each_pass(stage: Stage, clock: Monotonic) -> None:
    tap = Tap(stage.client)
    loop = Loop(tap.client, stage.namespace, stage.namespace, Policy(), stage.clock)
    await stage.job("j")
    await see(loop)
    tap.errors[WRITE] = RefusedError(409, "Conflict", "the object has been modified")
    for _ in range(5):
        await loop.step()
    assert tap.calls.count(WRITE) >= 5
    tap.errors.clear()
    await loop.step()
    assert condition((await stage.get_job("j"))["status"], "Placed")["status"] == "False"
