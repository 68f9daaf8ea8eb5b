"""Who leads: on a real API server, and when it is away."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from kube.odd import Odd, status
from structlog.testing import capture_logs

from rowen.kube import election
from rowen.kube.client import Client
from rowen.kube.election import LostLeaseError, Terms, ensure_held, lead, run_as_leader
from rowen.kube.kinds import LEASES
from rowen.kube.objects import get
from rowen.kube.timestamps import unix_seconds

QUICK = Terms(lease=2, renewal=1.0, retry=0.1, call=0.5)
NAME = "the-lease"
PATH = f"/apis/coordination.k8s.io/v1/namespaces/here/leases/{NAME}"


class Candidate:
    """Notes whether it is at work."""

    at_work: list[str] = []

    def __init__(self, client: Client, namespace: str, identity: str) -> None:
        self.identity, self.client, self.namespace = identity, client, namespace
        self.task = asyncio.create_task(run_as_leader(client, namespace, NAME, identity, self.work, QUICK))

    async def work(self) -> None:
        assert not self.at_work, "two at once"
        self.at_work.append(self.identity)
        try:
            await asyncio.sleep(600)
        finally:
            self.at_work.remove(self.identity)

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(1500):
        if holds():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it did not come to that")


async def spec(client: Client, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = (await get(client, LEASES, namespace, NAME))["spec"]
    return found


async def test_the_second_stands_by_and_takes_over_what_is_given_back(kube: Client, namespace: str) -> None:
    one = Candidate(kube, namespace, "one")
    await until(lambda: Candidate.at_work == ["one"])
    two = Candidate(kube, namespace, "two")
    await asyncio.sleep(3 * QUICK.lease)
    assert Candidate.at_work == ["one"], "longer than a lease: it is renewed"
    held = await spec(kube, namespace)
    assert (held["holderIdentity"], held["leaseDurationSeconds"], held["leaseTransitions"]) == ("one", 2, 1)
    assert unix_seconds(held["renewTime"]) > unix_seconds(held["acquireTime"])
    await one.stop()
    assert Candidate.at_work == []
    await until(lambda: Candidate.at_work == ["two"])
    assert (await spec(kube, namespace))["leaseTransitions"] == 2
    await two.stop()
    assert "holderIdentity" not in await spec(kube, namespace)


async def test_many_at_once_have_one_leader(kube: Client, namespace: str) -> None:
    candidates = [Candidate(kube, namespace, str(number)) for number in range(8)]
    for left in range(8, 0, -1):
        await until(lambda: len(Candidate.at_work) == 1)
        (leader,) = [candidate for candidate in candidates if candidate.identity in Candidate.at_work]
        candidates.remove(leader)
        await leader.stop()
        assert len(candidates) == left - 1


async def test_a_leader_that_is_gone_is_followed_when_its_lease_ends(kube: Client, namespace: str) -> None:
    """It cannot give anything back."""
    lost = {"holderIdentity": "gone", "leaseDurationSeconds": 1, "renewTime": "2999-01-01T00:00:00.000000Z"}
    manifest = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": NAME}, "spec": lost}
    await kube.call("POST", LEASES.path(namespace), body=manifest)
    two = Candidate(kube, namespace, "two")
    await until(lambda: Candidate.at_work == ["two"])
    await two.stop()


async def test_a_lease_that_another_has_taken_ends_the_work(kube: Client, namespace: str) -> None:
    one = Candidate(kube, namespace, "one")
    await until(lambda: Candidate.at_work == ["one"])
    path = LEASES.path(namespace, NAME)
    change = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}}
    await kube.call("PATCH", path, body=change, content_type="application/merge-patch+json")
    assert await one.task is False
    assert Candidate.at_work == []
    assert (await spec(kube, namespace))["holderIdentity"] == "thief"


@pytest.mark.parametrize(
    "refusal", [status(403, "Forbidden", "no"), status(429, "TooManyRequests", "later"), status(500, "Error", "no")]
)
async def test_a_leader_that_cannot_renew_stops_before_its_lease_ends(
    odd: Odd, odd_client: Client, refusal: Any
) -> None:
    stored: dict[str, Any] = {"metadata": {"name": NAME, "namespace": "here"}, "spec": {}}

    async def lease(request: Any) -> Any:
        if request.method == "PUT":
            stored.update(await request.json())
        return web.json_response(stored)

    odd.say(PATH, lease)
    one = Candidate(odd_client, "here", "one")
    await until(lambda: Candidate.at_work == ["one"])
    odd.say(PATH, refusal)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await one.task is False
    assert loop.time() - began < QUICK.lease + 2 * QUICK.call
    assert Candidate.at_work == []


async def test_without_the_right_nobody_leads(odd: Odd, odd_client: Client) -> None:
    odd.say(PATH, status(403, "Forbidden", "no"))
    one = Candidate(odd_client, "here", "one")
    await until(lambda: len(odd.asked) >= 5)
    assert Candidate.at_work == []
    await one.stop()


async def test_one_that_stands_by_for_long_says_why(
    odd: Odd, odd_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(election, "_REMIND_SECONDS", 0.3)
    odd.say(PATH, status(403, "Forbidden", "no right"))
    with capture_logs() as logs:
        one = Candidate(odd_client, "here", "one")
        await until(lambda: len([entry for entry in logs if entry["event"] == "still standing by"]) >= 2)
        await one.stop()
    told = [entry for entry in logs if entry["event"] == "still standing by"]
    assert {(entry["log_level"], entry["lease"], entry["error"]) for entry in told} == {("warning", NAME, "no right")}


async def test_work_that_stood_still_for_long_writes_nothing_more(kube: Client, namespace: str) -> None:
    said: list[str] = []

    async def work() -> None:
        ensure_held()
        said.append("held")
        time.sleep(QUICK.renewal + 0.1)  # noqa: ASYNC251
        with pytest.raises(LostLeaseError):
            ensure_held()
        said.append("lost")

    assert await run_as_leader(kube, namespace, NAME, "one", work, QUICK)
    assert said == ["held", "lost"]
    ensure_held()


async def test_who_has_lost_the_lease_stands_by_again(kube: Client, namespace: str) -> None:
    holders: list[str] = []

    async def work() -> None:
        holders.append((await spec(kube, namespace))["holderIdentity"])
        if len(holders) == 1:
            thief = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 1}}
            merge = "application/merge-patch+json"
            await kube.call("PATCH", LEASES.path(namespace, NAME), body=thief, content_type=merge)
            await asyncio.sleep(600)

    async with asyncio.timeout(60):
        await lead(kube, namespace, NAME, work, QUICK)
    assert len(holders) == 2
    assert holders[0] == holders[1] != "thief", "one process, one identity"


async def test_what_the_work_raises_is_raised_and_the_lease_is_given_back(kube: Client, namespace: str) -> None:
    async def fails() -> None:
        raise ValueError("broken")

    async def ends() -> None:
        pass

    with pytest.raises(ValueError, match="broken"):
        await run_as_leader(kube, namespace, NAME, "one", fails, QUICK)
    assert await run_as_leader(kube, namespace, NAME, "two", ends, QUICK)
    assert "holderIdentity" not in await spec(kube, namespace)
