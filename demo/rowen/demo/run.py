"""The demo's steps, in order."""

import asyncio
import inspect
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from rowen.crds.service.online_service import OnlineServiceSpec
from rowen.demo import evidence
from rowen.demo.cluster.endpoint import is_this_machine, leave_cores, service_endpoint
from rowen.demo.cluster.install import CLAIMS, NAMESPACES, Images, clear_jobs, install, prepare
from rowen.demo.cluster.kubectl import Cluster, kubectl
from rowen.demo.cluster.pods import OneOff, run_pod
from rowen.demo.cluster.readiness import diagnosis, job_running_state, seats_state, service_state, wait_for
from rowen.demo.errors import DemoError
from rowen.demo.mode import Mode
from rowen.demo.show.files import write
from rowen.demo.show.report import Run, make_report
from rowen.demo.show.terminal import show, show_next
from rowen.demo.show.view import View, make_view
from rowen.demo.show.world import Observer, World
from rowen.demo.traffic.excerpt import ATTRIBUTION, load
from rowen.demo.traffic.replay import Outcome, Progress, replay
from rowen.demo.traffic.scaling import DEMO, Request, scale
from rowen.demo.verdict.checks import PodEvidence
from rowen.demo.verdict.objective import Objective

SERVICE = "chat"
JOBS = ("support-lora", "nightly-summaries")

_REFRESH = 0.5
_WARM_UP_SECONDS = 20.0
"""Of the traffic, sent beforehand: an engine that has just started is slow for the first requests of each size."""
# After the replay's last answer the agent's last transitions still have to be read.
_SETTLE = 3.0


@dataclass(frozen=True)
class Settings:
    """What one may choose."""

    mode: Mode
    root: Path
    """Root of the repository."""
    out: Path
    """Folder of the report."""
    values: Path | None
    """Helm values; chosen by the cluster where absent."""
    seconds: float
    """Length of the replay."""
    job_limit: float
    """Seconds that the jobs may take after the replay."""
    namespace: str = "default"


async def run_demo(settings: Settings, console: Console) -> bool:
    """Runs the demo and returns whether every check holds. Raises `DemoError` where it cannot go on."""
    async with Cluster.connect(settings.namespace) as cluster:
        return await _run_on(cluster, settings, console)


async def _run_on(cluster: Cluster, settings: Settings, console: Console) -> bool:
    images = Images.load()
    _step(console, "Installing Rowen")
    await install(cluster, images, settings.root, settings.values, console)
    _step(console, "Preparing volumes, model and data")
    await clear_jobs(cluster, JOBS, console)
    await prepare(cluster, images, JOBS, settings.root, console)
    folder, requests = settings.mode.examples(settings.root), scale(load(), DEMO, seconds=settings.seconds)
    if await _service_comes_first(cluster, settings.mode):
        await _apply(cluster, folder / "online-service.yaml", settings, console)
    alone = await _replay_alone(cluster, settings, requests, console) if settings.mode is Mode.CO_SERVE else []
    await _apply(cluster, folder, settings, console)
    run = await _watch_traffic(cluster, images, settings, requests, alone, console)
    report = make_report(run)
    _step(console, "Report")
    await asyncio.to_thread(write, run, report, settings.out)
    show(report, run, console)
    show_next(settings.mode, cluster.namespace, settings.out, console)
    return report.passed


def _step(console: Console, title: str) -> None:
    console.print(f"[bold]== {title}[/bold]")


async def _service_comes_first(cluster: Cluster, mode: Mode) -> bool:
    """Jobs that come earlier get a place by the mode of before, or beside an engine that takes none in yet."""
    return mode is Mode.CO_SERVE or await _standing_mode(cluster) not in (None, mode)


async def _apply(cluster: Cluster, path: Path, settings: Settings, console: Console) -> None:
    """Applies examples and waits for the service. Raises `DemoError`."""

    async def state() -> str:
        waits = await service_state(cluster, SERVICE)
        return waits or (await seats_state(cluster, SERVICE) if settings.mode is Mode.CO_SERVE else "")

    _step(console, f"kubectl apply -f {path.relative_to(settings.root)}")
    await kubectl("apply", "-n", cluster.namespace, "-f", str(path))
    await wait_for(f"service {SERVICE}", state, partial(_why_not, cluster), console, 300)


async def _why_not(cluster: Cluster) -> str:
    return await diagnosis(cluster, (cluster.namespace, *NAMESPACES))


async def _standing_mode(cluster: Cluster) -> str | None:
    """Of the service that an earlier run has left; None where there is none."""
    found = await cluster.rowen("onlineservices", SERVICE)
    return OnlineServiceSpec.from_wire(found["spec"]).harvest.mode if found else None


async def _replay_alone(
    cluster: Cluster, settings: Settings, requests: list[Request], console: Console
) -> list[Outcome]:
    """What becomes of the requests before there is a job. Raises `DemoError`."""
    warm_up = [request for request in requests if request.arrival < _WARM_UP_SECONDS]
    objective = await _objective(cluster)
    observer = Observer(cluster, SERVICE, ())

    async def no_device() -> str:
        return "" if observer.world.serving(SERVICE) else "no agent tells of it yet"

    async with observer.watching() as world, service_endpoint(cluster, SERVICE, console) as endpoint:
        await wait_for(f"device of {SERVICE}", no_device, partial(_why_not, cluster), console, 60)
        _leave_devices(cluster, world)
        _step(console, f"The same traffic before there are jobs, to compare with: {settings.seconds:.0f} s")
        await replay(warm_up, endpoint=endpoint, model=SERVICE, progress=Progress())
        progress = Progress()
        with make_view(console, world, progress, objective) as view:
            return await _replay(requests, endpoint, progress, view, settings.seconds)


async def _watch_traffic(
    cluster: Cluster,
    images: Images,
    settings: Settings,
    requests: list[Request],
    alone: list[Outcome],
    console: Console,
) -> Run:
    objective = await _objective(cluster)
    observer = Observer(cluster, SERVICE, JOBS)
    async with observer.watching() as world, service_endpoint(cluster, SERVICE, console) as endpoint:
        await _wait_until_they_run(cluster, world, settings.mode, console)
        _leave_devices(cluster, world)
        _step(console, f"Live traffic: {len(requests)} requests in {settings.seconds:.0f} s. {ATTRIBUTION}")
        progress = Progress()
        with make_view(console, world, progress, objective) as view:
            outcomes = await _replay(requests, endpoint, progress, view, settings.seconds)
            seconds = time.time() - progress.started
            await _wait_for_jobs(world, view, settings.job_limit)
        if not _have_finished(world):
            limit = f"{settings.job_limit:.0f} s after the replay"
            console.print(
                f"  {limit} not all jobs have ended: not waited for any longer", style="yellow", highlight=False
            )
    _step(console, "Reading what the jobs left, and loading the adapter in vLLM")
    return Run(
        mode=settings.mode,
        service=SERVICE,
        jobs=JOBS,
        objective=objective,
        started=progress.started,
        seconds=seconds,
        expected_requests=len(requests),
        outcomes=outcomes,
        alone=alone,
        world=world,
        found=await _evidence(cluster, images, console),
    )


async def _wait_until_they_run(cluster: Cluster, world: World, mode: Mode, console: Console) -> None:
    """Goes on without a job that takes too long: the report will tell."""
    waits: dict[str, Callable[[], Awaitable[str]]] = {name: partial(job_running_state, cluster, name) for name in JOBS}
    if mode is Mode.CO_SERVE:
        # A pod that rides is outside any gate: it loads its libraries before it is joined with the engine.
        waits |= {f"{name} in the engine": partial(_riding_state, world, name) for name in JOBS}
    for what, state in waits.items():
        try:
            await wait_for(what, state, lambda: diagnosis(cluster, (cluster.namespace,)), console, 120)
        except DemoError as error:
            console.print(f"  going on without it: {error}\n{error.hint}", style="yellow", highlight=False)


async def _riding_state(world: World, name: str) -> str:
    return "" if name in world.riding or world.job_result(name).finished else "not joined with it yet"


async def _objective(cluster: Cluster) -> Objective:
    found = await cluster.rowen("onlineservices", SERVICE)
    if found is None:
        raise DemoError(f"OnlineService {SERVICE} is gone")
    return Objective.from_spec(OnlineServiceSpec.from_wire(found["spec"]).slo)


def _leave_devices(cluster: Cluster, world: World) -> None:
    """This process computes beside the service's devices, where they are this machine's."""
    if is_this_machine(cluster.host):
        leave_cores(device_cores(world))


def device_cores(world: World) -> set[int]:
    """Cores of the devices that the service runs on, by their ids (`cpu1` is core 1)."""
    names = (name for (_, name), _ in world.serving(SERVICE))
    return {int(match.group(1)) for match in map(re.compile(r"^cpu(\d+)$").match, names) if match}


async def _replay(
    requests: list[Request], endpoint: Callable[[], str], progress: Progress, view: View, seconds: float
) -> list[Outcome]:
    running = asyncio.create_task(replay(requests, endpoint=endpoint, model=SERVICE, progress=progress))
    try:
        while not running.done() or time.time() < progress.started + seconds:
            view.refresh()
            await asyncio.sleep(_REFRESH)
    finally:
        running.cancel()
    return running.result()


async def _wait_for_jobs(world: World, view: View, limit: float) -> None:
    deadline = time.monotonic() + limit
    settled = time.monotonic() + _SETTLE
    while time.monotonic() < settled or (time.monotonic() < deadline and not _have_finished(world)):
        view.refresh()
        await asyncio.sleep(_REFRESH)


def _have_finished(world: World) -> bool:
    return all(world.job_result(name).finished for name in JOBS)


async def _evidence(cluster: Cluster, images: Images, console: Console) -> PodEvidence:
    # The script travels with the pod, so that any runtime image will do.
    pod = OneOff(
        name="rowen-demo-evidence",
        image=images.runtime,
        script=(
            f"cat > /tmp/evidence.py <<'END_OF_SCRIPT'\n{inspect.getsource(evidence)}\nEND_OF_SCRIPT\n"
            "python /tmp/evidence.py --model /volumes/models/llama-demo"
            " --adapter /volumes/models/adapters/support"
            " --input /volumes/data/requests.jsonl --output /volumes/data/results.jsonl"
        ),
        claims=CLAIMS,
        memory="3Gi",
    )
    try:
        output = await run_pod(cluster, pod, console, limit=240)
        return PodEvidence.model_validate_json(output.strip().splitlines()[-1])
    except (DemoError, ValueError, IndexError) as error:
        console.print(f"  no evidence: {error}", style="red", highlight=False)
        return PodEvidence(adapter_error=f"the pod that loads it failed: {error}")
