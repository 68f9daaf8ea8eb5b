"""Ways to share a device between a server and a fine-tuning job, and how each is set up."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from coserving.node import CoservingNode
from coserving.result import Bounds
from coserving.slices import sliced
from coserving.turns import Mode

DYNAMIC = 0


@dataclass(frozen=True)
class Arm:
    """One of them."""

    tuner: str | None = None
    """Of `node.TUNERS`; None: no fine-tuning."""
    riding: bool = False
    """Whether the server is the one with Rowen's plugin."""
    mode: Mode = Mode.FREE
    """How the tuner shares."""
    every: int = DYNAMIC
    """Steps of the server between two iterations, in `Mode.TURNS`."""
    bounds: Bounds | None = None
    """That iterations keep, in `Mode.TURNS` in place of `every`."""
    server_part: float | None = None
    """Of the core, as the most that the server has; None: all that it gets."""
    tuner_part: float | None = None
    shares: bool | None = None
    """Whether the job behind the gate is given what the server leaves beside its requests; None: it is not asked."""

    @contextlib.contextmanager
    def arranged(self, node: CoservingNode) -> Iterator[None]:
        """The tuner may run, and stands still after. Raises `OSError` where the kernel lets nobody divide a core."""
        parts = {}
        if self.server_part is not None:
            parts[node.processes.model_process(self.server)] = self.server_part
        if self.tuner is not None and self.tuner_part is not None:
            parts[node.processes.process(self.tuner)] = self.tuner_part
        if self.shares is not None:
            node.device.let_share(self.shares)
        with contextlib.ExitStack() as stack:
            if parts:
                stack.enter_context(sliced(parts))
            if self.tuner is not None:
                turns = node.turns(self.tuner)
                turns.every = self.every
                turns.bound = self.bounds.tpot if self.bounds else None
                turns.ttft_bound = self.bounds.ttft if self.bounds else 0.0
                turns.mode = self.mode
                stack.callback(node.hold, self.tuner)
            yield

    @property
    def server(self) -> str:
        """Of `node.SERVERS`."""
        return "rowen" if self.riding else "plain"


FIXED = {
    "alone": Arm(),
    "rowen": Arm("rider", riding=True),
    "preempt": Arm("gated", riding=True),
    **{
        f"separate_{percent}": Arm("free", server_part=percent / 100, tuner_part=1 - percent / 100)
        for percent in (25, 50, 75)
    },
    **{f"temporal_{steps}": Arm("free", mode=Mode.TURNS, every=steps) for steps in (64, 128)},
    "temporal_dynamic": Arm("free", mode=Mode.TURNS, every=DYNAMIC),
    "spatial_50": Arm("free", tuner_part=0.5),
}
"""Those that are given no bound here: the server with Rowen's plugin has its own."""


def chunked(bounds: Bounds) -> Arm:
    """Chunks that keep these."""
    return Arm("chunked", mode=Mode.TURNS, bounds=bounds)


def arms_of(bounds: Bounds) -> dict[str, Arm]:
    """All of them; `bounds`: of the service."""
    return FIXED | {"chunked": chunked(bounds)}
