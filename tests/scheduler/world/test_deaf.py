"""A watch that delivers no reports, although it looks well: with a real API server."""

import asyncio
import contextlib

from scheduler.stage import Clock, Stage
from scheduler.tap import Tap, until

from rowen.crds.names import LATE_SECONDS, NODE_LEASE_SECONDS
from rowen.kube.client import Client
from rowen.scheduler.world.cluster import Cluster


async def test_reports_are_listed_anew_where_nodes_live_on_and_theirs_do_not_arrive(
    kube: Client, namespace: str
) -> None:
    stage, tap = Stage(kube, namespace, Clock()), Tap(kube)
    node = await stage.node("a")
    tap.deaf.add("WATCH nodeharvests")
    cluster = Cluster(tap.client, namespace, lambda: None, stage.clock, NODE_LEASE_SECONDS)

    def told() -> float | None:
        found = cluster.snapshot(stage.clock()).nodes.get(node)
        return found.told if found else None

    task = asyncio.create_task(cluster.run())
    try:
        async with stage.alive(node):
            await until(lambda: told() is not None)
            stage.clock.offset += LATE_SECONDS
            at = stage.clock()
            await stage.report(node)
            await until(lambda: (last := told()) is not None and last >= at)
            lists = tap.calls.count("GET nodeharvests")
            stage.clock.offset += LATE_SECONDS
            await asyncio.sleep(3)
            # A minute has not passed since: a report that never comes costs few lists.
            assert tap.calls.count("GET nodeharvests") == lists
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await stage.clear()
