"""What fine-tuning beside requests could be at most on a core: all of its arithmetic that requests do not need.

A decode step reads every weight for few rows, so a core's units wait for memory. Were all of that time used, what is
left is the core's peak less what the requests' own tokens take: two operations for each weight of a linear layer and
token. A token of LoRA fine-tuning takes four, forward and the gradients on the way back; weights have no gradients of
their own. Attention, norms and the adapters are left out, so nobody gets there.

The other limit is time, where reading weights and computing do not overlap, as in the kernels of a CPU: what the
engine's own steps leave of the time, at the speed of a job alone. What rides in a step needs the weights that are read
for it anyway, so that one can be passed. What riders added to a step is by prediction, and what the engine's own steps
took is the rest: a prediction that is too high for the requests alone makes what is left, and what rides, smaller, and
one that is too low both larger.
"""

import time
from collections.abc import Sequence

from coserving.result import Run
from reporting.report import Figures, Missing

from rowen.demo.samples import SHAPE, Shape

_REQUEST_OPERATIONS, _TUNING_OPERATIONS = 2, 4
"""For each weight of a linear layer and token."""
_ROUNDS = 20


def linear_weights(shape: Shape) -> int:
    """Of all linear layers of a model."""
    width = shape.hidden // shape.heads
    attention = 2 * shape.hidden * shape.hidden + 2 * shape.hidden * width * shape.key_value_heads
    return shape.layers * (attention + 3 * shape.hidden * shape.intermediate)


def peak_operations() -> float:
    """A second, of this process's core in float32: the fastest of some products of the model's size."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    inputs, weights = torch.randn(512, SHAPE.hidden), torch.randn(SHAPE.hidden, SHAPE.intermediate)
    best = float("inf")
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        torch.mm(inputs, weights)
        best = min(best, time.perf_counter() - begun)
    torch.set_num_threads(threads)
    return 2.0 * 512 * SHAPE.hidden * SHAPE.intermediate / best


def most_tokens(peak: float, request_tokens: float) -> float:
    """Of fine-tuning a second, beside requests of so many tokens a second, read and written; `peak`: operations."""
    weights = linear_weights(SHAPE)
    return max(0.0, peak - _REQUEST_OPERATIONS * weights * request_tokens) / (_TUNING_OPERATIONS * weights)


def request_tokens(runs: Sequence[Run]) -> float:
    """A second, read and written."""
    return sum(run.served_tokens for run in runs) / sum(run.seconds for run in runs)


def roofline_figures(runs: Sequence[Run], peak: float) -> Figures:
    """Of Rowen's arm, by load: the most, and how much of that it was."""
    figures: dict[str, tuple[float, str]] = {"peak_gflops": (peak / 1e9, "Gflop/s")}
    for load in sorted({run.load for run in runs}):
        own = [run for run in runs if run.arm == "rowen" and run.load == load]
        most = most_tokens(peak, request_tokens(own))
        speed = sum(run.tokens for run in own) / sum(run.seconds for run in own)
        figures[f"roofline_load_{load:g}"] = most, "tokens/s"
        figures[f"of_roofline_load_{load:g}"] = (speed / most if most else 0.0), "fraction"
    return figures


def left_figures(runs: Sequence[Run], solo_speed: float) -> Figures:
    """Of Rowen's arm, by load: what its engine's own steps leave, at `solo_speed`, and how much of that it was."""
    figures: dict[str, tuple[float | Missing, str]] = {}
    for load in sorted({run.load for run in runs}):
        own = [run for run in runs if run.arm == "rowen" and run.load == load and run.online_seconds is not None]
        seconds = sum(run.seconds for run in own)
        left = solo_speed * (seconds - sum(run.online_seconds or 0.0 for run in own))
        figures[f"left_load_{load:g}"] = left / seconds, "tokens/s"
        part = sum(run.tokens for run in own) / left if left > 0 else Missing("its own steps leave nothing")
        figures[f"of_left_load_{load:g}"] = part, "fraction"
    return figures
