"""One arm's turn under the requests, and what was seen of it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from colocation.measure import replayed
from harvest.arms import DEFAULT, SIXTY, Apart, Division, NeverReclaimed, Rowen, Static, past
from harvest.history import Load
from harvest.load import MAX_TOKENS
from harvest.node import MEMORY, HarvestNode, Seen
from reporting.blocks import Block
from reporting.repeat import Repeat

from rowen.demo.show.report import in_flight_spans
from rowen.demo.verdict.statistics import clip, covered

_HANDOVER_SECONDS = 0.3
"""With the gate closed, at the start of each turn: what the worker has of the last one is the engine's."""
_SETTLE_SECONDS = 1.5
"""Without requests after that: the worker fills the memory that it may have."""


@dataclass(frozen=True)
class Turn:
    """What is known of it besides what the client saw."""

    repeat: Repeat
    stretch: str
    reclaims: int
    """Rounds in which handles were taken from the worker."""
    handles_reclaimed: int
    tokens_lost: int
    """That the worker had computed, and had to compute again."""
    kills: int
    down_seconds: float
    """With the worker killed, and not there again."""
    granted_seconds: float
    """In which the gate was open, and the worker there."""
    worker_handles: float
    """That the worker held, on average."""
    engine_peak: int
    """Handles that the engine used or wanted at most."""

    def row(self, seed: int) -> dict[str, Any]:
        """All that the figures are made of."""
        return self.repeat.row(seed) | {
            "stretch": self.stretch,
            "reclaims": self.reclaims,
            "handles_reclaimed": self.handles_reclaimed,
            "tokens_lost": self.tokens_lost,
            "kills": self.kills,
            "down_s": self.down_seconds,
            "gate_open_s": self.repeat.gate_open,
            "granted_s": self.granted_seconds,
            "worker_handles": self.worker_handles,
            "engine_peak_handles": self.engine_peak,
        }


class Turns:
    """Gives the arms their turns."""

    def __init__(self, node: HarvestNode) -> None:
        self._node = node
        self._static = Static(node.shares, node.kill_worker)
        self._rowens = {"rowen": Rowen(node.shares, DEFAULT), "rowen_60": Rowen(node.shares, SIXTY)}
        self._divisions: dict[str, Division] = {
            "alone": Apart(node.shares, engine=MEMORY.handles, worker=0),
            **self._rowens,
            "static": self._static,
            # Room for the longest request, or the engine could not serve at all.
            "never_reclaimed": NeverReclaimed(node.shares, MEMORY.of(MAX_TOKENS) + 1),
        }

    @contextmanager
    def everything(self) -> Iterator[None]:
        """The worker has all the memory, and the device: nobody sends requests meanwhile."""
        self._node.hold(False)
        with self._node.divided(Apart(self._node.shares, engine=0, worker=MEMORY.handles)):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """The engine has all the memory, and the device."""
        self._node.hold(True)
        with self._node.divided(self._divisions["alone"]):
            yield

    def turn(self, arm: str, block: Block, load: Load) -> Turn:
        """One of an arm. Raises `RuntimeError` when server or worker has ended."""
        node = self._node
        # Who was killed in another arm's turn is to be there again.
        node.wait_worker()
        node.hold(True)
        self._static.part = load.static_part
        for rowen in self._rowens.values():
            rowen.past = past(load.uses, MEMORY.handles, rowen.service)

        def settle() -> None:
            time.sleep(_HANDOVER_SECONDS)
            node.hold(arm == "alone")
            time.sleep(_SETTLE_SECONDS)

        with node.divided(self._divisions[arm], settle):
            return self._replay(arm, block, load)

    def _replay(self, arm: str, block: Block, load: Load) -> Turn:
        node, device = self._node, self._node.device
        before, done, pool, kills = device.counts(), node.counts(), node.shares.status(), node.kills
        node.seen = Seen()
        served = max((request.number for request in device.requests(0)), default=0)
        closings = max((closing.number for closing in device.closings(0)), default=0)
        started = time.time()
        outcomes = replayed(node.url, load.requests, load.stretch.replay_seconds)
        ended = time.time()
        seen = node.seen
        after, now, pool_after = device.counts(), node.counts(), node.shares.status()
        seconds = ended - started
        idle = seconds - covered(clip(in_flight_spans(outcomes), started, ended))
        repeat = Repeat(
            arm=arm,
            block=block,
            outcomes=tuple(outcomes),
            seconds=seconds,
            idle=idle,
            gate_open=after.idle_seconds - before.idle_seconds,
            tokens=None if arm == "alone" else now.tokens - done.tokens,
            preemptions=after.preemptions - before.preemptions,
            stops=tuple(
                closing.acknowledged - closing.closed
                for closing in device.closings(closings)
                if closing.for_request and closing.tenants and closing.acknowledged is not None
            ),
            per_request=tuple(request.preemptions for request in device.requests(served)),
            backstops=after.backstops - before.backstops,
            cooldown=after.cooldown,
        )
        return Turn(
            repeat=repeat,
            stretch=load.stretch.name,
            reclaims=pool_after.reclaims - pool.reclaims,
            handles_reclaimed=pool_after.handles_reclaimed - pool.handles_reclaimed,
            tokens_lost=now.lost - done.lost,
            kills=node.kills - kills,
            down_seconds=seen.down_seconds,
            granted_seconds=max(0.0, repeat.gate_open - seen.down_open_seconds),
            worker_handles=seen.worker_handle_seconds / seconds,
            engine_peak=seen.engine_peak,
        )
