"""Arms on a real core: how each is set up, replayed and measured."""

import asyncio
import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from colocation.colocation import MODEL, Colocation
from colocation.device_gate import Gate
from colocation.flags import Mode
from colocation.sharing import Weight, idle_policy, pods
from reporting.blocks import Block
from reporting.repeat import METRICS, Repeat, values_of

from rowen.demo.show.report import in_flight_spans
from rowen.demo.traffic.replay import Outcome, Progress, replay
from rowen.demo.traffic.scaling import Request
from rowen.demo.verdict.statistics import clip, covered, percentile

_SETTLE = 1.0
_WARM_UPS = 4
_STEADY = 0.05
# Without and with the plugin it is not the same server: one stands still while the other serves.
_REWARM_SECONDS = 4.0


@dataclass(frozen=True)
class Arm:
    """What runs beside the server, and how the kernel shares the core."""

    tenant: str | None = None
    """`managed`, `free`, or none."""
    plain: bool = False
    """Whether the server is the one without Rowen's plugin."""
    weight: Weight | None = None
    """Server and tenant have a group each, the tenant's with this weight; None: both are in one group."""
    idle_policy: bool = False
    """Whether the tenant runs under SCHED_IDLE."""
    mode: Mode = Mode.KERNEL
    """What a free tenant goes by."""

    @contextlib.contextmanager
    def arranged(self, colocation: Colocation) -> Iterator[None]:
        """Sets the arm up. Raises `OSError` where the kernel does not let us."""
        colocation.flags.mode = self.mode
        colocation.arrange(self.tenant)
        with contextlib.ExitStack() as stack:
            stack.callback(setattr, colocation.flags, "mode", Mode.KERNEL)
            if self.tenant is not None:
                tenant = colocation.members(self.tenant)
                if self.weight is not None:
                    stack.enter_context(pods(colocation.members("engine"), tenant, self.weight))
                if self.idle_policy:
                    stack.enter_context(idle_policy(tenant))
            yield


def measure(
    colocation: Colocation,
    name: str,
    arm: Arm,
    block: Block,
    requests: Sequence[Request],
    seconds: float,
    *,
    stood_still: bool,
) -> Repeat:
    """Sets an arm up, lets it settle and replays the requests. Raises `OSError` as `Arm.arranged` does.

    A server that stood still before answers the first of the requests once, unmeasured.
    """
    with arm.arranged(colocation):
        time.sleep(_SETTLE)
        if stood_still:
            first = [request for request in requests if request.arrival < _REWARM_SECONDS]
            _replay(colocation, arm, first, _REWARM_SECONDS)
        gate = colocation.free if arm.tenant == "free" else colocation.managed
        # The engine's requests are known to the managed gate's device, whoever has the core.
        device, engine = gate.device, colocation.managed.device
        before, tokens = device.counts(), gate.tokens()
        closings = max((closing.number for closing in device.closings(0)), default=0)
        served = max((request.number for request in engine.requests(0)), default=0)
        started = time.time()
        outcomes = _replay(colocation, arm, requests, seconds)
        ended = time.time()
        after = device.counts()
        worked = gate.tokens() - tokens
    stops = [
        closing.acknowledged - closing.closed
        for closing in device.closings(closings)
        if closing.for_request and closing.tenants and closing.acknowledged is not None
    ]
    return Repeat(
        arm=name,
        block=block,
        outcomes=tuple(outcomes),
        seconds=ended - started,
        idle=ended - started - covered(clip(in_flight_spans(outcomes), started, ended)),
        gate_open=after.idle_seconds - before.idle_seconds,
        tokens=worked if arm.tenant else None,
        preemptions=after.preemptions - before.preemptions,
        stops=tuple(stops),
        per_request=tuple(request.preemptions for request in engine.requests(served)),
        backstops=after.backstops - before.backstops,
        cooldown=after.cooldown,
    )


@dataclass(frozen=True)
class WarmUp:
    """Replays of a server that went before those that count."""

    replays: int
    steady: bool
    """Whether the medians of the last two differ by at most 5 %."""


def warm_up(colocation: Colocation, arm: Arm, requests: Sequence[Request], seconds: float) -> WarmUp:
    """Replays the requests until the medians are steady, at most four times."""
    previous = dict.fromkeys(METRICS, math.nan)
    with arm.arranged(colocation):
        for replays in range(_WARM_UPS):
            outcomes = _replay(colocation, arm, requests, seconds)
            found = {metric: percentile(values_of(outcomes, metric), 50) for metric in METRICS}
            if all(abs(found[metric] / previous[metric] - 1) <= _STEADY for metric in METRICS):
                return WarmUp(replays + 1, steady=True)
            previous = found
    return WarmUp(_WARM_UPS, steady=False)


def _replay(colocation: Colocation, arm: Arm, requests: Sequence[Request], seconds: float) -> list[Outcome]:
    return replayed(colocation.plain_url if arm.plain else colocation.url, requests, seconds)


def replayed(url: str, requests: Sequence[Request], seconds: float) -> list[Outcome]:
    """What became of the requests, in order of arrival; takes at least so long."""

    async def traffic() -> list[Outcome]:
        replaying = replay(requests, endpoint=lambda: url, model=MODEL, progress=Progress())
        done, _ = await asyncio.gather(replaying, asyncio.sleep(seconds))
        return done

    return asyncio.run(traffic())


def solo(colocation: Colocation, seconds: float) -> float:
    """Tokens per second of a tenant while the server has no request."""
    colocation.arrange("free")
    time.sleep(_SETTLE)
    speed = _speed(colocation.free, seconds)
    colocation.arrange(None)
    return speed


def _speed(gate: Gate, seconds: float) -> float:
    # From report to report: a window that ends within a step would count too little or too much.
    first = _next_report(gate)
    time.sleep(seconds)
    last = _next_report(gate)
    return (last[1] - first[1]) / (last[0] - first[0])


def _next_report(gate: Gate) -> tuple[float, int]:
    tokens = gate.tokens()
    while gate.tokens() == tokens:
        time.sleep(0.002)
    return time.monotonic(), gate.tokens()
